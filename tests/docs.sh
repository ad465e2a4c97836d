#!/bin/bash
# Runs every command of docs/*.md as a reader would: the blocks marked ```sh of a page, in order, in an empty folder, with
# drover on the PATH. A block marked ```yaml whose first line is "# FILE" is written to FILE first. What a page takes for
# granted stands in a comment: from a line "<!-- before" to "-->". Other blocks (```console, ```text, ...), those of
# README.md and the heads of examples/*.yaml need a network or hours: their commands are held against the help, verb by
# verb and option by option. A page with a line "<!-- needs: FILE -->", a model of real size, takes a minute: with "models"
# behind the program these pages are run, and nothing else (real_model.sh does that). The last line is "N passed, N failed".
# usage: docs.sh DROVER [models]
. "$(dirname "$0")"/program.bash
tree=$(realpath "$(dirname "$0")/..")
docs=$tree/docs
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin" && ln -s "$drover" "$dir/bin/drover"
export PATH=$dir/bin:$PATH
passed=0 failed=0 models=${2-}

# The page as one script: set -e, a trace, files written from their blocks.
script_of() {
    echo 'set -eo pipefail'
    awk '/^<!-- before$/ || /^```sh$/ { run = 1; print "echo \"## line " NR "\""; next }
         /^```yaml$/ { first = 1; next }
         /^```/ || (run && /^-->$/) { if (file) print "END_OF_FILE"; run = file = first = 0; next }
         first { first = 0; if ($0 ~ /^# [^ ]+\.yaml$/) { file = 1; print "cat > " $2 " <<\"END_OF_FILE\"" } }
         run || file { print }' "$1"
}

for page in "$docs"/*.md; do
    script_of "$page" >"$dir/script"
    [ "$(grep -c '^## line' "$dir/script" || true)$(grep -c 'echo "## line' "$dir/script")" = 00 ] && continue
    name=$(basename "$page" .md)
    needs=$(sed -n 's/^<!-- needs: \(.*\) -->$/\1/p' "$page")
    [ "${needs:+models}" = "$models" ] || continue
    [ -z "$needs" ] || echo "docs/$name.md reads $needs, outside the tree"
    mkdir "$dir/$name"
    if (cd "$dir/$name" && bash "$dir/script") >"$dir/out" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: docs/$name.md, in the block at $(grep '^## line' "$dir/out" | tail -n 1 | cut -c4-):"
        tail -n 15 "$dir/out" | sed 's/^/    /'
    fi
done

if [ -n "$models" ]; then
    echo "$passed passed, $failed failed"
    exit $((failed > 0))
fi

# Every "drover VERB ..." of blocks, of code inside a line and of comments in YAML: the verb is one, and has the options.
python3 - "$tree" <<'PY' >"$dir/out"
import glob, re, subprocess, sys
tree = sys.argv[1]
def listed(help, head):
    part = re.search(rf"^{head}:\n((?:  .*\n)+)", help, re.M)
    return re.findall(r"^  ([a-z][a-z-]*|--[a-z-]+)(?= |$)", part[1], re.M) if part else []
def help_of(*words):
    return subprocess.run(["drover", "help", *words], capture_output=True, text=True, check=True).stdout
options = {}
for verb in listed(help_of(), "verbs"):
    subverbs = listed(help_of(verb), "subverbs")
    for name in [(verb, sub) for sub in subverbs] or [(verb,)]:
        options[name] = listed(help_of(*name), "options")
verbs = {name[0] for name in options}
def wrong(command):
    words = []
    for word in command.split():
        if word in ("|", ";", "&&", ">", "#") or word[0] == "#":
            break
        words.append(word.strip("`,.;)\"'"))
    if not words or not re.fullmatch("[a-z]+", words[0]) or words[0] in ("help", "version"):
        return None
    name = tuple(words[:2]) if any(words[0] == n[0] and len(n) == 2 for n in options) else tuple(words[:1])
    if name[0] not in verbs:
        return f'"{name[0]}" is no verb'
    if name not in options:  # "drover data" alone, or followed by a word of the sentence
        return None if len(words) == 1 else f'"{" ".join(name)}" is no subverb'
    for word in words[len(name):]:
        option = word.split("=")[0]
        if re.fullmatch("--[a-z-]+", option) and option not in options[name] + ["--help"]:
            return f'{" ".join(name)} has no option {option}'
n_commands = 0
pages = [tree + "/README.md", tree + "/CONTRIBUTING.md", *glob.glob(tree + "/docs/*.md"), *glob.glob(tree + "/docs/adr/*.md"), *glob.glob(tree + "/docs/workflows/*.md"), *glob.glob(tree + "/examples/*.yaml")]
for page in sorted(pages):
    block = False
    added = re.findall(r'\.name = "([a-z]+)"', open(page).read())  # extending.md adds a verb
    for number, line in enumerate(open(page), 1):
        if line.startswith("```"):
            block = not block
            continue
        if page.endswith(".yaml"):
            commands = re.findall(r"[ `]drover ([a-z][^`]*)", line) if "#" in line else []
        elif block:
            commands = [c for c in re.findall(r"(?:^|[ /(])drover ((?:[a-z]+\b).*)", line.rstrip()) if c]
            commands = commands if re.match(r"^(?:mpirun .*|build/|for .*|echo .*|cat .*|printf .*)?(?:build/)?drover ", line) else []
        else:
            commands = re.findall(r"`(?:build/)?drover ([a-z][^`]*)`", line)
        for command in commands:
            n_commands += 1
            problem = wrong(command)
            if problem and command.split()[0] not in added:
                print(f"FAILED: {page[len(tree) + 1:]}:{number}: {problem}: drover {command}")
if n_commands < 80:
    print(f"FAILED: only {n_commands} commands were found in the pages, expected 80 or more")
PY
if [ -s "$dir/out" ]; then
    failed=$((failed + $(wc -l <"$dir/out")))
    cat "$dir/out"
else
    passed=$((passed + 1))
fi

# docs/extending.md changes the source: every place that it names is there. (tools/follow_extending.py builds it too.)
if python3 "$tree/tools/follow_extending.py" --edits >"$dir/out" 2>&1; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    sed 's/^/FAILED: /' "$dir/out"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
