// Hugging Face's split patterns are regular expressions of Oniguruma (syntax "Ruby",
// https://github.com/kkos/oniguruma/blob/v6.9.10/doc/RE); here PCRE2 matches them. The same
// characters often mean another thing there: \h is a hexadecimal digit, ^ and $ know lines, a{,2}
// is a quantifier, a{1,3}+ repeats a repetition, [a&&b] intersects, (?m) is "dot matches newline".
// A pattern is read by Oniguruma's rules and written anew in what PCRE2 reads the same way; what is
// not known to be equal is refused. Understood:
//   characters      literals, \t \n \v \f \r \a \e, \xHH below 80, \x{H}, \uHHHH, \ before a sign
//   classes         . \d \D \s \S \w \W \h \H \p{NAME} \P{NAME} \p{^NAME} (code_set.h has the
//   names) [ ]             all of these, ranges, [^ ], classes in classes, && (binds less than a
//   row) groups          ( ) (?: ) (?> ) (?i: ) (?m: ) (?-i: ), (?i) and (?m) at the front
//   assertions ^ $ \A \z \Z \b \B (?= ) (?! ), (?<= ) and (?<! ) of alternatives that each have
//                   one length
//   quantifiers     * + ? {n} {n,} {n,m} {,m}; ? (lazy) and + behind them
// Without regard to case, ASCII letters alone, where no pair of them folds to one character ("ss"
// is U+00DF).
#pragma once
#include "base/status.h"
#include "base/str.h"

// Appends the pattern for pcre2_compile with PCRE2_UTF and the newline PCRE2_NEWLINE_LF. `where`
// begins the message. DRV_E_DATA: what is not understood, and at which byte.
DRV_CHECKED drv_status oniguruma_to_pcre2(const char *where, const char *pattern, str *out);
