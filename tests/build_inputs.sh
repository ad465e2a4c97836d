#!/usr/bin/env bash
# drover data build as its inputs come: recognised by content, counted when skipped, locked; which token ends a
# document; what info and verify know of it afterwards. usage: build_inputs.sh DROVER
set -u
tests=$(realpath "$(dirname "$0")")
. "$(dirname "$0")"/story.bash

ok() { # TEXT CONDITION...
    local text=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $text"; tail -5 log; fi
}
build() { "$drover" data build --tokenizer tok --out set "$@" >log 2>&1; }
piped() { # FILE ARGUMENTS...
    local file=$1
    shift
    cat "$file" | build --input - "$@"
}
fails() { ! "$@"; }
says() { grep -q -- "$1" log; }
silent() { ! grep -q -- "$1" log; }
documents() { "$drover" data info set | grep -q "^documents  $1\$"; }
text() { "$drover" data show set --document "$1" --tokenizer tok; } # of a document

printf 'the cat and the dog and the hat and that was that' >small.txt
"$drover" tokenizer train --input small.txt --vocab-size 280 --special '<|endoftext|>' --special '<|sep|>' --out tok 2>log || { cat log; exit 1; }

# --- what is no text is refused by its name, and is a broken record in a folder
python3 - <<'PY'
import bz2, gzip, io, lzma, os, tarfile, zipfile
text = b'{"text": "the cat"}\n' * 50
packed = {"xz": lzma.compress(text), "bz2": bz2.compress(text), "twice": gzip.compress(gzip.compress(text)),
          "lz4": b"\x04\x22\x4d\x18" + text, "pdf": b"%PDF-1.7\n" + text, "png": b"\x89PNG\r\n\x1a\n" + text}
with zipfile.ZipFile("made.zip", "w") as archive:
    archive.writestr("a.jsonl", text)
packed["zip"] = open("made.zip", "rb").read()
tar = io.BytesIO()
with tarfile.open(fileobj=tar, mode="w") as archive:
    info = tarfile.TarInfo("a.jsonl")
    info.size = len(text)
    archive.addfile(info, io.BytesIO(text))
packed["tar"] = tar.getvalue()
packed["tar-gz"] = gzip.compress(tar.getvalue())
for name, data in packed.items():
    open("foreign." + name, "wb").write(data)
os.mkdir("mixed")
open("mixed/a.txt", "wb").write(b"the cat")
open("mixed/b.txt", "wb").write(lzma.compress(text))
PY
refuses() { # FILE TEXT...: both as a file and by a pipe
    local file=$1 text
    shift
    ok "$file is refused" fails build --input "$file"
    for text in "$@"; do ok "$file: $text" says "$text"; done
    ok "$file is refused by a pipe" fails piped "$file"
    ok "$file by a pipe: $1" says "standard input $1"
    ok "nothing is left of $file" [ ! -e set.bin ]
}
refuses foreign.xz "is xz, expected text" "xz -dc foreign.xz"
refuses foreign.bz2 "is bzip2, expected text" "bzip2 -dc foreign.bz2"
refuses foreign.lz4 "is lz4"
refuses foreign.twice "is gzip packed twice"
refuses foreign.zip "is a zip archive" "unzip -p"
ok "an archive that is not of WebDataset is refused" fails build --input foreign.tar
ok "as samples without text" says "foreign.tar:1: is a sample without .txt or .json"
refuses foreign.tar-gz "is a tar archive"
refuses foreign.pdf "is PDF"
refuses foreign.png "is a PNG image"
ok "a folder with one" build --input mixed
ok "it is skipped by name" says "skipped: .*b.txt.*is not text by its first bytes"
ok "the other is read" documents 1
rm set.*
cp "$tests"/golden/parquet/chat1.parquet table.jsonl
ok "a table with the extension of text" fails build --input table.jsonl
ok "is named" says "table.jsonl:1: is a Parquet file by its first bytes, expected the extension .parquet"

# --- a folder as it comes: capitals, links that lead back
mkdir -p deep/er
cp small.txt deep/A.TXT
printf '{"text": "the cat"}\n' >deep/er/B.JSONL
gzip -c small.txt >deep/er/C.Txt.GZ
ln -s ../../deep deep/er/back
ln -s . deep/self
ok "a folder with links to itself" build --input deep
ok "each file counts once, endings in any letters" documents 3
ok "the link is named" says "deep/er/back leads back to a folder above it"
rm set.*

# --- what is there is not replaced silently; a set is named by its prefix
ok "a first build" build --input small.txt
ok "says nothing of an older one" silent "there already"
ok "a second one" build --input small.txt --append-eod
ok "says what it replaces" says "set.bin and .idx are there already; they are replaced"
cp small.txt own.bin
cp set.bin ids.bin
cp set.idx ids.idx
for prefix in own ids; do
    "$drover" data build --tokenizer tok --input small.txt ids.idx --out $prefix >log 2>&1
    ok "$prefix: wrong usage" [ $? = 2 ]
done
ok "an input is not replaced" says 'whose file "ids.idx" is an input'
ok "nor a .bin of another program" cmp own.bin small.txt
rm own.* ids.*
for file in set.bin set.idx; do
    "$drover" data info $file >log 2>&1
    ok "$file: wrong usage" [ $? = 2 ]
    ok "$file: the prefix" says "is one file of a data set, expected its prefix: set\$"
done
rm set.*

# --- standard input and unknown endings, by content
printf '{"text": "the cat"}\n\n{"text": "that\\nhat"}\n' >lines.jsonl
gzip -k lines.jsonl
python3 - <<'PY'
line = b'{"text": "' + b"the cat and " * 20000 + b'"}\n'  # longer than what is looked at
open("long.jsonl", "wb").write(line * 3)
open("bom.jsonl", "wb").write(b"\xef\xbb\xbf" + open("lines.jsonl", "rb").read())
open("bom.txt", "wb").write(b"\xef\xbb\xbfthe cat")
open("utf16.txt", "wb").write("the cat".encode("utf-16"))
open("nul.jsonl", "wb").write(b'{"text": "the"}\n' + b"\0" * 10 + b'\n{"text": "cat"}\n' + b"\0" * 100)
open("brace.log", "wb").write(b"{ not JSON }\nthe cat\n")
open("parquet.bin", "wb").write(b"PAR1\x15" + bytes(99) + b"PAR1")
PY
zstd -q -k lines.jsonl 2>/dev/null || python3 -c 'import sys; sys.exit("no zstd")' 2>/dev/null || true
ok "JSON lines" piped lines.jsonl
ok "named" says "standard input: JSON lines$"
ok "two documents" documents 2
ok "the text of the second" test "$(text 1)" = "that
hat"
ok "JSON lines, gzip" piped lines.jsonl.gz
ok "named" says "standard input: JSON lines, gzip$"
ok "two documents" documents 2
if [ -e lines.jsonl.zst ]; then
    ok "JSON lines, zstd" piped lines.jsonl.zst
    ok "named" says "standard input: JSON lines, zstd$"
fi
ok "a long first line" piped long.jsonl
ok "named" says "standard input: JSON lines$"
ok "three documents" documents 3
ok "text" piped small.txt
ok "named" says "standard input: text$"
ok "one document" documents 1
ok "a brace begins no JSON" piped brace.log
ok "named" says "standard input: text$"
ok "text that looks like JSON lines, with a separator" piped lines.jsonl --separator '\n'
ok "is text" says "standard input: text$"
cp lines.jsonl.gz data.backup
ok "a file of unknown ending" build --input data.backup
ok "named" says "data.backup: JSON lines, gzip$"
cp lines.jsonl.gz wrong.jsonl
ok "packed against its ending" build --input wrong.jsonl
ok "two documents" documents 2
ok "Parquet on a pipe" fails piped parquet.bin
ok "says why not" says "standard input: Parquet, which cannot be read from a pipe"
ok "Parquet of unknown ending is opened as such" fails build --input parquet.bin
ok "and broken" says "parquet.bin"

# --- marks and NULs
ok "a mark before JSON lines" build --input bom.jsonl
ok "none is skipped" says "skipped 0 records"
ok "a mark before text" build --input bom.txt
ok "is no text" test "$(text 0)" = "the cat"
ok "UTF-16" fails build --input utf16.txt
ok "is named" says "utf16.txt:1: is UTF-16, expected UTF-8"
printf 'the cat sat\n' | iconv -f utf-8 -t utf-16le >unmarked.txt
ok "without a mark, too" fails build --input unmarked.txt
ok "and named" says "unmarked.txt:1: is UTF-16, expected UTF-8"
ok "lines of NUL" build --input nul.jsonl
ok "are broken" says "skipped 2 records"
ok "two documents" documents 2
ok "strictly" fails build --input nul.jsonl --strict
ok "the first one is named" says "nul.jsonl:2:"

# --- folders
mkdir -p folder/inner
cp small.txt folder
for i in 1 2 3; do echo >"folder/inner/$i.html"; done
echo >folder/a.tar.gz
echo >folder/Makefile
ok "a folder" build --input folder
ok "what was skipped is counted by ending" says "skipped 5 files: 3 .html, 1 .tar.gz, 1 without an ending"

# --- separators
printf 'the cat\tthe dog\n\nthe hat\\that' >parts.txt
for case in '\t 2' '\n\n 2' '\\ 2' '\n 2' 'the 3'; do
    ok "separator ${case% *}" build --input parts.txt --separator "${case% *}"
    ok "documents" documents "${case##* }"
done
ok "an unknown escape" fails build --input parts.txt --separator '\q'
ok "is explained" says 'the separator is "\\q", expected'

# --- the end of a document
ok "the tokenizer's token" build --input lines.jsonl --append-eod
ok "is named" says "<|endoftext|> (id 0) is put after each document"
ok "and ends the document" test "$(text 0)" = "the cat<|endoftext|>"
"$drover" data info set >log
ok "info names it" says "^end        <|endoftext|> (id 0) after each document"
ok "and the tokenizer" says "^tokenizer  $dir/tok/tokenizer.json (280 tokens)\|^tokenizer  .*tok/tokenizer.json"
"$drover" data info set --json >log
ok "as JSON" python3 -c 'import json; d = json.load(open("log")); assert d["end_of_document"] == {"id": 0, "text": "<|endoftext|>"} and d["documents"] == 2, d'
ok "another one by its text" build --input lines.jsonl --eod '<|sep|>'
ok "is named" says "<|sep|> (id 1) is put after each document"
ok "by its id" build --input lines.jsonl --append-eod --eod 1
ok "ends the document" test "$(text 0)" = "the cat<|sep|>"
ok "no such token" fails build --input lines.jsonl --eod '<|nope|>'
ok "is refused" says '"<|nope|>", which is not a token of tok'
ok "no such id" fails build --input lines.jsonl --eod 99999
ok "is refused" says "99999, expected an id from 0 to"
ok "none" build --input lines.jsonl
"$drover" data info set >log
ok "is said" says "no token after the documents"

# --- verify
verify() { "$drover" data verify set "$@" >log 2>&1; }
ok "verify" verify
ok "says against what" says "all of them in the .* tokens of the tokenizer that it was built with"
ok "verify with the tokenizer" verify --tokenizer tok
ok "says so" says "tok/tokenizer.json"
cp -r tok other && sed -i 's/<|sep|>/<|cut|>/' other/tokenizer.json
ok "another tokenizer" fails verify --tokenizer other
ok "is refused" says "built with another tokenizer"
ok "too small a vocabulary" fails verify --vocab-size 50
ok "names the place" says "set.bin: token [0-9]* (in document [0-9]*) is [0-9]*, expected 0 to 49"
ok "both" fails verify --vocab-size 50 --tokenizer tok
ok "an option of another subverb" fails verify --document 1
ok "is named" says "document"
rm set.idx.json
ok "without what is said beside it" verify
"$drover" data info set >log
ok "info says that" says "tokenizer  not recorded"

# --- two at a time
mkfifo pipe
build2() { "$drover" data build --tokenizer tok --out set --input - <pipe >log2 2>&1; }
build2 &
exec 7>pipe
printf 'the cat' >&7
until [ -s set.build.lock ] || ! kill -0 $!; do sleep 0.02; done # it has the lock once its number is in it
cp set.bin before.bin
ok "a second build into one --out" fails build --input small.txt
ok "names the lock, the process and the set" says 'another drover (process [0-9]*) is writing the data set "set": it holds the lock "set.build.lock"'
ok "and has touched nothing" cmp set.bin before.bin
exec 7>&-
wait $!
ok "the first one ends well" grep -q "1 document," log2
ok "its lock is gone" test ! -e set.build.lock
ok "the next build goes" build --input small.txt
echo 99999 >set.build.lock
ok "a lock that nobody holds stops nobody" build --input small.txt
# --- the text of a long object of JSON is decoded in pieces: the ids are those of the text, and of the object one copy is held
awk 'BEGIN { for (i = 0; i < 400000; i++) printf "%sthe %d cats \303\274ber \"that\" hat and\ta \\ more", i ? " " : "", i * 7919 % 1000 }' >long.txt
{ printf '{"text": "not the last one", "n": [1, {"text": 2}], "text": "'
  sed 's/\\/\\\\/g; s/"/\\"/g; s/\t/\\t/g; s/\xc3\xbc/\\u00fc/g' long.txt
  printf '", "z": null}\n{"text": "short"}\n'; } | tr -d '\n' | sed 's/}{/}\n{/' >long.jsonl
{ printf '['; sed '$!s/$/,/' long.jsonl; printf ']'; } >long.json
printf 'short' >short.txt
peak() { python3 "$tests"/peak_memory.py "$drover" data build --tokenizer tok --append-eod "$@" 2>log; }
plain=$(peak --out whole --input long.txt short.txt) lines=$(peak --out lines --input long.jsonl) array=$(peak --out array --input long.json)
ok "the ids of a long line" cmp whole.bin lines.bin
ok "documents of a long line" cmp whole.idx lines.idx
ok "the ids of a long element" cmp whole.bin array.bin
size=$(($(wc -c <long.jsonl) >> 20))
sanitized || ok "a line of $size MiB takes $lines MiB, a text $plain" [ $((lines - plain)) -lt $((size * 3 / 2)) ]
sanitized || ok "an element of $size MiB takes $array MiB, a text $plain" [ $((array - plain)) -lt $((size * 3 / 2)) ]
{ printf '{"text": "'; cat long.txt | tr '"\\\t' '   '; printf '\xff", "x": }\n{"text": "short"}\n'; } >broken.jsonl # wrong behind its text
ok "a long line that is broken" build --input broken.jsonl
ok "its name" says "broken.jsonl:1: not a JSON value"
ok "what is left" documents 1
finish
