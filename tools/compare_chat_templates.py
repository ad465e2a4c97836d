#!/usr/bin/env python3
"""Renders random conversations by chat templates with transformers' apply_chat_template and with drover, and compares
the texts: a differential fuzzer. If one of the two refuses a template, the other one must, too.

    python tools/compare_chat_templates.py build/drover [--templates DIR...] [--n 20] [--seed 0]

Without --templates those below are used, written in the style of many families. Prints template and seed of each
difference; exit status 1 if there is one. Needs transformers and jinja2.
"""
import argparse, json, pathlib, random, subprocess, sys, tempfile

DATE = "2024-02-29"

# Each is made of the idioms that the templates of such models have.
TEMPLATES = {
"phi": """{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}{% else %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}""",
"command": """{{ bos_token }}{%- if messages[0]['role'] == 'system' -%}{%- set loop_messages = messages[1:] -%}{%- set system_message = messages[0]['content'] -%}{%- elif false == true -%}{%- set loop_messages = messages -%}{%- set system_message = 'You are Command.' -%}{%- else -%}{%- set loop_messages = messages -%}{%- set system_message = false -%}{%- endif -%}
{%- if system_message != false -%}{{ '<|START|><|SYSTEM|>' + system_message + '<|END|>' }}{%- endif -%}
{%- for message in loop_messages -%}{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{%- endif -%}
{%- set content = message['content'] -%}{%- if message['role'] == 'user' -%}{{ '<|USER|>' + content.strip() + '<|END|>' }}{%- elif message['role'] == 'assistant' -%}{{ '<|BOT|>' + content.strip() + '<|END|>' }}{%- endif -%}{%- endfor -%}""",
"json_to_python": """{%- macro json_to_python_type(json_spec) %}
{%- set basic = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} %}
{%- if json_spec.type in basic %}{{- basic[json_spec.type] }}
{%- elif json_spec.type == "array" %}{{- "List[" + json_to_python_type(json_spec["items"]) + "]" }}
{%- elif json_spec.type == "object" %}{%- if json_spec.additionalProperties is defined %}{{- "Dict[str, " + json_to_python_type(json_spec.additionalProperties) + "]" }}{%- else %}{{- "Dict" }}{%- endif %}
{%- elif json_spec.type is iterable %}{{- "Union[" }}{%- for t in json_spec.type %}{{- json_to_python_type({"type": t}) }}{%- if not loop.last %}{{- "," }}{%- endif %}{%- endfor %}{{- "]" }}
{%- else %}{{- "Any" }}{%- endif %}{%- endmacro %}
{%- if tools %}{%- for tool in tools %}{%- if tool.function is defined %}{%- set tool = tool.function %}{%- endif %}
{{- '{"type": "function", "function": {"name": "' + tool.name + '", "description": "' + tool.name + '(' }}
{%- for name, fields in (tool.parameters.properties or {}) | items %}{{- name + ": " + json_to_python_type(fields) }}{%- if not loop.last %}{{- ", " }}{%- endif %}{%- endfor %}{{- ")" }}
{%- if tool.return is defined %}{{- " -> " + json_to_python_type(tool.return) }}{%- endif %}
{{- " - " + tool.description|default('', true) + "\\n\\n" }}
{{- "parameters: " + tool.parameters|tojson }}{%- endfor %}{%- endif %}
{%- for message in messages %}{%- if message.role == "user" or message.role == "system" or (message.role == "assistant" and message.tool_calls is not defined) %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
{%- elif message.role == "assistant" %}{{- '<|im_start|>' + message.role }}{%- for tool_call in message.tool_calls %}{{- '\\n<tool_call>\\n' }}{%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}{{- '{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}{{- tool_call.arguments|tojson }}{{- '}' }}{{- '\\n</tool_call>' }}{%- endfor %}{{- '<|im_end|>\\n' }}
{%- elif message.role == "tool" %}{%- if loop.previtem and loop.previtem.role != "tool" %}{{- '<|im_start|>tool\\n' }}{%- endif %}{{- '<tool_response>\\n' }}{{- message.content }}{%- if not loop.last %}{{- '\\n</tool_response>\\n' }}{%- else %}{{- '\\n</tool_response>' }}{%- endif %}{%- if not loop.last and loop.nextitem.role != "tool" %}{{- '<|im_end|>' }}{%- elif loop.last %}{{- '<|im_end|>' }}{%- endif %}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}""",
"llama33": """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("Cannot put tools in the first user message when there's no first user message!") }}
{%- endif %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}""",
"qwen3": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>" }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- tool_call.name }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- content }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}""",
"deepseek": """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='') %}{%- for message in messages %}{%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}{%- endfor %}{{bos_token}}{{ns.system_prompt}}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<|User|>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is none %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls']%}{%- if not ns.is_first %}{{'<|Assistant|>' + tool['type'] + '\\n' + '```json' + '\\n' + tool['function']['arguments'] + '\\n' + '```'}}{%- set ns.is_first = true -%}{%- endif %}{%- endfor %}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is not none %}{%- if ns.is_tool %}{{'<|end|>' + message['content']}}{%- set ns.is_tool = false -%}{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{'<|Assistant|>' + content + '<|eos|>'}}{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{'<|outs|>' + message['content'] + '<|oe|>'}}{%- set ns.is_output_first = false %}{%- else %}{{'\\n' + message['content']}}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{'<|outs_end|>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{'<|Assistant|>'}}{% endif %}""",
"granite": """{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content'] %}{%- set loop_messages = messages[1:] %}{%- else %}{%- set system_message = "Knowledge Cutoff Date: April 2024.\\nToday's Date: " + strftime_now('%B %d, %Y') + ".\\nYou are Granite." %}{%- if tools and documents %}{%- set system_message = system_message + " both" %}{%- elif tools %}{%- set system_message = system_message + " tools" %}{%- endif %}{%- set loop_messages = messages %}{%- endif %}{{- '<|start|>system<|eor|>' + system_message + '<|eot|>\\n' }}{%- if tools %}{{- tools | tojson(indent=4) }}{%- endif %}{%- if documents %}{%- for document in documents %}{{- 'Document ' + loop.index | string + '\\n' + document['text'] }}{%- if not loop.last %}{{- '\\n\\n'}}{%- endif%}{%- endfor %}{%- endif %}{%- for message in loop_messages %}{{- '<|start|>' + message['role'] + '<|eor|>' + (message['content'] or '') + '<|eot|>\\n' }}{%- if loop.last and add_generation_prompt %}{{- '<|start|>assistant' }}{%- if controls %}{{- ' ' + controls | tojson()}}{%- endif %}{{- '<|eor|>' }}{%- endif %}{%- endfor %}""",
"olmo": """{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}{{ '<|system|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'user' %}{{ '<|user|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'assistant' %}{% if not loop.last %}{{ '<|assistant|>\n'  + message['content'] + eos_token + '\n' }}{% else %}{{ '<|assistant|>\n'  + message['content'] + eos_token }}{% endif %}{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% endfor %}""",
"falcon": """{% for message in messages %}{% if not loop.first %}{{ '\n' }}{% endif %}{% if message['role'] == 'system' %}{{ 'System: ' }}{% elif message['role'] == 'user' %}{{ 'User: ' }}{% elif message['role'] == 'assistant' %}{{ 'Falcon: ' }}{% endif %}{{ message['content'] | replace('\\r\\n', '\\n') | replace('\\n\\n', '\\n') | trim }}{% endfor %}{% if add_generation_prompt %}{{ '\n' + 'Falcon:' }}{% endif %}""",
"zephyr": """{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}""",
"vicuna": """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = 'A chat between a curious user and an assistant.' %}{% endif %}{{ system_message }}{% for message in loop_messages if message.content %}{% if message['role'] == 'user' %}{{ ' USER: ' + message['content'].strip() }}{% else %}{{ ' ASSISTANT: ' ~ message['content'].strip() ~ eos_token }}{% endif %}{% else %}{{ ' nobody' }}{% endfor %}{% if add_generation_prompt %}{{ ' ASSISTANT:' }}{% endif %}""",
"gemma3": """{{ bos_token }}{%- if messages[0]['role'] == 'system' -%}{%- if messages[0]['content'] is string -%}{%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}{%- else -%}{%- set first_user_prefix = messages[0]['content'][0]['text'] + '\n\n' -%}{%- endif -%}{%- set loop_messages = messages[1:] -%}{%- else -%}{%- set first_user_prefix = "" -%}{%- set loop_messages = messages -%}{%- endif -%}{%- for message in loop_messages -%}{%- if (message['role'] == 'assistant') -%}{%- set role = "model" -%}{%- else -%}{%- set role = message['role'] -%}{%- endif -%}{{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else "") }}{%- if message['content'] is string -%}{{ message['content'] | trim }}{%- elif message['content'] is iterable -%}{%- for item in message['content'] -%}{%- if item['type'] == 'image' -%}{{ '<start_of_image>' }}{%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}{%- endfor -%}{%- else -%}{{ raise_exception("Invalid content type") }}{%- endif -%}{{ '<end_of_turn>\n' }}{%- endfor -%}{%- if add_generation_prompt -%}{{'<start_of_turn>model\n'}}{%- endif -%}""",
"filters": """{% for m in messages %}{{ loop.index }}/{{ loop.length }} {{ loop.revindex0 }} {{ m.role|upper }}|{{ m.content|default('none', true)|string|title }}|{{ (m.content or '')|wordcount }}|{{ (m.content or '').split()|map('length')|list }}|{{ m|items|map('first')|sort|join(',') }}|{{ m.keys()|list }}|{{ (m.content or '')[::-1][:5] }}|{{ (m.content or '')|string|list|unique|list|length }}|{{ loop.cycle('a', 'b') }}
{% endfor %}{{ messages|selectattr('role', 'equalto', 'user')|list|length }} {{ messages|map(attribute='role')|join('-') }} {{ messages|rejectattr('role', 'in', ['user', 'system'])|map(attribute='content')|select('string')|map('trim')|list|tojson }} {{ (messages|last).role }} {{ (messages|first)['role'] }} {{ messages|groupby('role')|map('first')|list }} {{ range(3, 9, 2)|list }} {{ 7 // 2 }} {{ 7 % 3 }} {{ 2 ** 5 }} {{ 1.5 * 2 }} {{ 10 / 4 }} {{ 3 == 3.0 }} {{ [1,2]|sum }} {{ 'a' < 'b' }} {{ 'x' * 3 }} {{ dict(a=1, b='c')|tojson }} {{ {'b': none, 'a': true} }} {{ "%s has %d"|format('x', 3) }} {{ 'a-b_c'.replace('-', '_').split('_', 1) }} {{ ['a', 'b']|batch(1)|list }} {{ messages|length is divisibleby 2 }}""",
}


def text(rng):
    return rng.choice(["", "Hello", " spaced \n", "Größe <b>&\"'</b> \\ \u2028", "a\n\nb\r\nc", "<think>\nhm\n</think>\n\nso", "日本 😀", "one two  three", "it's"])


def conversation(rng):
    messages, roles = [], ["user", "assistant"]
    if rng.random() < .4:
        messages.append(dict(role="system", content=text(rng)))
    for i in range(rng.randrange(0 if messages else 1, 6)):
        role = roles[i % 2] if rng.random() < .85 else rng.choice(["tool", "system", "user", "assistant"])
        m = dict(role=role, content=text(rng))
        if role == "assistant" and rng.random() < .3:
            arguments = dict(city="Köln", n=[1, 2.5, None, True], deep={"a": {"b": "<c>"}})
            call = dict(type="function", function=dict(name="find", arguments=json.dumps(arguments) if rng.random() < .3 else arguments))
            m["tool_calls"] = [call] * rng.choice([1, 1, 1, 2])
            if rng.random() < .5:
                m["content"] = None
        if role == "assistant" and rng.random() < .2:
            m["reasoning_content"] = text(rng)
        if role == "user" and rng.random() < .1:
            m["content"] = [dict(type="text", text=text(rng)), dict(type="image")]
        messages.append(m)
    return messages


def tools(rng):
    spec = dict(type="object", properties=dict(city=dict(type="string", description=text(rng)), n=dict(type="array", items=dict(type="integer")), any=dict(type=["string", "null"])), required=["city"])
    return [dict(type="function", function=dict(name="find", description=text(rng), parameters=spec))] * rng.choice([1, 2])


def theirs(template, messages, extra, prompt):
    from datetime import datetime
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    from transformers.utils import chat_template_utils

    class Fixed(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.fromisoformat(DATE)
    chat_template_utils.datetime = Fixed
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a")), bos_token="<s>", eos_token="</s>")
    try:
        return tokenizer.apply_chat_template(messages, chat_template=template, add_generation_prompt=prompt, tokenize=False, **extra)
    except Exception as e:
        return e


def ours(drover, path, messages, extra, prompt, folder):
    (folder / "m.json").write_text(json.dumps(messages))
    command = [drover, "chat", "--template", path, "--messages", folder / "m.json", "--print", "--date", DATE, "--bos", "<s>", "--eos", "</s>"]
    for key, value in extra.items():
        if value is not None:
            (folder / f"{key}.json").write_text(json.dumps(value))
            command += [f"--{key}", folder / f"{key}.json"]
    got = subprocess.run(command + ["--generation-prompt"] * prompt, capture_output=True, timeout=60)
    return got.stdout.decode() if got.returncode == 0 else Exception(got.stderr.decode().strip())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("drover")
    p.add_argument("--templates", nargs="*", default=[])
    p.add_argument("--n", type=int, default=20)
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()
    templates = {str(f): f.read_text() for d in a.templates for f in sorted(pathlib.Path(d).rglob("*.jinja"))} or TEMPLATES
    bad = total = refused = 0
    with tempfile.TemporaryDirectory() as d:
        folder = pathlib.Path(d)
        for name, template in templates.items():
            path = folder / "t.jinja"
            path.write_bytes(template.encode())
            for seed in range(a.seed, a.seed + a.n):
                rng = random.Random(seed)
                messages, prompt = conversation(rng), rng.random() < .5
                extra = dict(tools=tools(rng) if rng.random() < .4 else None, documents=[dict(title="t", text=text(rng))] if rng.random() < .2 else None)
                if not messages:
                    continue
                want, got = theirs(template, messages, extra, prompt), ours(a.drover, path, messages, extra, prompt, folder)
                total += 1
                refused += isinstance(want, Exception)
                if isinstance(want, Exception) and isinstance(got, Exception) or want == got:
                    continue
                bad += 1
                print(f"{name} --seed {seed}\n  theirs {want!r}\n  ours   {got!r}", flush=True)
    print(f"{len(templates)} templates, {total} conversations ({refused} refused by both), {bad} differences")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
