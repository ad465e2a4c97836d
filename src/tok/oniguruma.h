// Translates Hugging Face's split patterns, regular expressions of Oniguruma (syntax "Ruby",
// https://github.com/kkos/oniguruma/blob/v6.9.10/doc/RE), to PCRE2. Some constructs have another
// meaning in Oniguruma: \h is a hexadecimal digit, ^ and $ match at line ends, a{,2} is a
// quantifier, a{1,3}+ repeats a repetition, [a&&b] intersects, (?m) is "dot matches newline". A
// pattern is parsed by Oniguruma's rules and rewritten for PCRE2; a construct that is not known to
// be equivalent is refused. Supported:
//   characters      literals, \t \n \v \f \r \a \e, \xHH below 80, \x{H}, \uHHHH, \ before a sign
//   classes         . \d \D \s \S \w \W \h \H \p{NAME} \P{NAME} \p{^NAME} (names: code_set.h)
//   [ ]             all of these, ranges, [^ ], nested classes, && (binds less than a sequence)
//   groups          ( ) (?: ) (?> ) (?i: ) (?m: ) (?-i: ), (?i) and (?m) at the front
//   assertions      ^ $ \A \z \Z \b \B (?= ) (?! )
//                   (?<= ) and (?<! ) of alternatives that each have one length
//   quantifiers     * + ? {n} {n,} {n,m} {,m}; ? (lazy) and + after them
// Under (?i) only ASCII letters are supported, and no pair of them that Oniguruma also matches with
// one character ("ss" with U+00DF).
#pragma once
#include "base/status.h"
#include "base/str.h"

// Appends the pattern as pcre2_compile takes it with PCRE2_UTF and PCRE2_NEWLINE_LF. `where` begins
// the message. DRV_E_DATA names an unsupported construct and its byte.
DRV_CHECKED drv_status oniguruma_to_pcre2(const char *where, const char *pattern, str *out);
