#!/usr/bin/env python3
"""Writes tests/golden/sft: a small tokenizer, templates, records and the tokens and answers that transformers gives.
Needs transformers, tokenizers, jinja2: tools/make_sft_golden.py
A record of golden.jsonl: template (a file, or "alpaca"), record, ids, roles (0 none, 1 answer, 2 last answer)."""
import json, os
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "sft")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>"]
TEMPLATES = {
    "chatml.jinja": "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{% endfor %}"
                    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "marked.jinja": "{% for m in messages %}{% if m.role == 'assistant' %}{{ '<|im_start|>assistant\n' }}{% generation %}"
                    "{{ m.content }}<|im_end|>{% endgeneration %}{{ '\n' }}{% else %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
                    "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    # BOS in the text, no prompt of its own, spaces at the border, roles that must alternate
    "brackets.jinja": "{{ bos_token }}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
                      "{{ raise_exception('roles must alternate') }}{% endif %}{% if m.role == 'user' %}"
                      "{{ '[INST] ' + m.content.strip() + ' [/INST]' }}{% else %}{{ ' ' + m.content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
    # the border lies inside a token: the prompt ends without the space that the answer begins with
    "glued.jinja": "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{{ ' ' + m.content + eos_token }}{% else %}"
                   "{{ ' ' + m.content + '\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}",
    "inside.jinja": "{% for m in messages %}{% if m.role == 'assistant' %}a{% generation %}{{ m.content }}{% endgeneration %}b{% else %}"
                    "{{ m.content }}{% endif %}{% endfor %}",
    "tools.jinja": "{% if tools %}{{ tools | tojson }}{{ '\n' }}{% endif %}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
                   "{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% else %}{{ m.content }}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}"
                   "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
}
CHATS = [
    [("user", "Who are you?"), ("assistant", "A small model.")],
    [("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello there!"), ("user", "na\u00efve caf\u00e9?"), ("assistant", "\u65e5\u672c \U0001f600")],
    [("user", " leading "), ("assistant", " trailing\n\n"), ("user", "and"), ("assistant", ""), ("user", "again"), ("assistant", "x")],
    [("user", "no answer")],
    [("user", "a"), ("assistant", "one"), ("user", "two")],
]
ALPACA = [{"instruction": "Add the numbers.", "input": "1 2", "output": "3"}, {"instruction": "Say hi", "context": "", "response": "hi"},
          {"instruction": "Name a colour.", "output": "Red,\nor blue."}]
NOTE = "Below is an instruction that describes a task"
ASK = "Write a response that appropriately completes the request.\n\n"


def make_tokenizer():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    text = [x for c in CHATS for _, x in c] + [NOTE, ASK, "assistant user system instruction response the an answer"] * 3
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=340, special_tokens=SPECIAL, show_progress=False,
                                                    initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", t.token_to_id("<s>"))])
    os.makedirs(HERE, exist_ok=True)
    t.save(os.path.join(HERE, "tokenizer.json"), pretty=False)
    with open(os.path.join(HERE, "tokenizer_config.json"), "w", encoding="utf-8") as f:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}, f)
    return PreTrainedTokenizerFast(tokenizer_file=os.path.join(HERE, "tokenizer.json"), bos_token="<s>", eos_token="</s>")


def roles_of(n, spans, starts, length):
    """A token that holds a character of an answer is one; spans: (begin, end, role)."""
    roles = [0] * n
    for begin, end, role in spans:
        for i in range(n):
            stop = starts[i + 1] if i + 1 < n else length
            if starts[i] < end and (stop > begin or (stop == starts[i] and starts[i] >= begin)):
                roles[i] = role
    return roles


def chat(t, name, messages, tools=None):
    template = TEMPLATES[name]
    say = lambda m, prompt=False: t.apply_chat_template(m, chat_template=template, tools=tools, tokenize=False, add_generation_prompt=prompt)
    out = t.apply_chat_template(messages, chat_template=template, tools=tools, tokenize=True, return_dict=True,
                                return_assistant_tokens_mask="{% generation %}" in template)
    ids = out["input_ids"]
    last = max([i for i, m in enumerate(messages) if m["role"] == "assistant"], default=None)
    if "{% generation %}" in template:
        roles = out["assistant_masks"]
        if last is not None and messages[last]["content"]:  # what the mask loses without its last answer is that answer
            starts = [0] + [i for i in range(1, len(roles)) if roles[i] and not roles[i - 1]]
            final = max(i for i in range(len(roles)) if roles[i])
            first = max(i for i in starts if i <= final and roles[i])
            roles = [2 * r if first <= i <= final else r for i, r in enumerate(roles)]
        return ids, roles
    text = say(messages)
    encoded = t(text, add_special_tokens=False, return_offsets_mapping=True)
    assert encoded["input_ids"] == ids
    spans = []
    for i, m in enumerate(messages):
        if m["role"] == "assistant":
            before, after = say(messages[:i], True), say(messages[:i + 1])
            assert text.startswith(before) and text.startswith(after)
            spans.append((len(before), len(after), 2 if i == last else 1))
    return ids, roles_of(len(ids), spans, [o[0] for o in encoded["offset_mapping"]], len(text))


def alpaca(t, r):
    more = r.get("input", r.get("context", ""))
    head = NOTE + (", paired with an input that provides further context. " if more else ". ") + ASK
    prompt = head + "### Instruction:\n" + r["instruction"] + "\n\n" + ("### Input:\n" + more + "\n\n" if more else "") + "### Response:\n"
    text = prompt + r.get("output", r.get("response")) + "</s>"
    encoded = t(text, return_offsets_mapping=True)  # BOS by the tokenizer
    starts = [o[0] for o in encoded["offset_mapping"]]
    return encoded["input_ids"], roles_of(len(starts), [(len(prompt), len(text), 2)], starts, len(text))


t = make_tokenizer()
for name, template in TEMPLATES.items():
    with open(os.path.join(HERE, name), "w", encoding="utf-8", newline="") as f:
        f.write(template)
with open(os.path.join(HERE, "golden.jsonl"), "w", encoding="utf-8") as f:
    def put(template, record, made):
        f.write(json.dumps({"template": template, "record": record, "ids": made[0], "roles": made[1]}) + "\n")
    for name in TEMPLATES:
        for turns in CHATS:
            if name == "brackets.jinja" and turns[0][0] == "system":
                continue
            messages = [{"role": r, "content": c} for r, c in turns]
            if name in ("marked.jinja", "inside.jinja") and any(r == "assistant" and not c for r, c in turns):
                continue  # an empty block has no character to ask transformers for
            if name == "inside.jinja" and any(r == "assistant" and ord(c[-1]) > 127 for r, c in turns):
                continue  # transformers marks the first token alone of the last character, which may have several
            put(name, {"messages": messages}, chat(t, name, messages))
    speakers = {"user": "human", "assistant": "gpt", "system": "system"}
    put("chatml.jinja", {"conversations": [{"from": speakers[r], "value": c} for r, c in CHATS[1]]},
        chat(t, "chatml.jinja", [{"role": r, "content": c} for r, c in CHATS[1]]))
    pair = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]
    for record in [{"prompt": "Q", "response": "A"}, {"prompt": "Q", "completion": "A"}, {"question": "Q", "answer": "A"},
                   {"prompt": pair[:1], "completion": pair[1:]}, {"instruction": "Q", "input": "", "output": "A"}]:
        put("chatml.jinja", record, chat(t, "chatml.jinja", pair))
    put("chatml.jinja", {"instruction": "Q", "context": "more", "response": "A", "system": "S"},
        chat(t, "chatml.jinja", [{"role": "system", "content": "S"}, {"role": "user", "content": "Q\n\nmore"}, pair[1]]))
    tools = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}]
    called = [pair[0], {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]},
              {"role": "tool", "content": "7"}, {"role": "assistant", "content": "Seven."}]
    put("tools.jinja", {"messages": called, "tools": tools}, chat(t, "tools.jinja", called, tools))
    put("tools.jinja", {"messages": called, "tools": json.dumps(tools)}, chat(t, "tools.jinja", called, tools))
    for r in ALPACA:
        put("alpaca", r, alpaca(t, r))

# A template that, like Qwen3's, writes thinking only after the last question: each answer is a document of its own, and what
# is learned of it is what the template adds to the messages before it with the generation prompt.
THINKS = ("{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
          "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' and loop.index0 > ns.last %}"
          "{{ '<think>\n' + (m.reasoning_content or '') + '\n</think>\n\n' }}{% endif %}{{ m.content + '<|im_end|>\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
TURNS = [
    [dict(role="user", content="Hi"), dict(role="assistant", content="Hello there!", reasoning_content="greet"),
     dict(role="user", content="Who are you?"), dict(role="assistant", content="A small model.")],
    [dict(role="system", content="Be brief."), dict(role="user", content="a"), dict(role="assistant", content="one", weight=0),
     dict(role="user", content="two"), dict(role="assistant", content="x", reasoning_content="y"), dict(role="user", content="z"),
     dict(role="assistant", content="again")],
    [dict(role="user", content="a"), dict(role="assistant", content="one"), dict(role="user", content="b"), dict(role="assistant", content="two"),
     dict(role="user", content="no answer")],
    [dict(role="user", content="a"), dict(role="assistant", content="alone", reasoning_content="y")],
]
with open(os.path.join(HERE, "thinks.jinja"), "w", encoding="utf-8", newline="") as f:
    f.write(THINKS)
with open(os.path.join(HERE, "turns.jsonl"), "w", encoding="utf-8") as f:
    for messages in TURNS:
        say = lambda m, prompt=False: t.apply_chat_template(m, chat_template=THINKS, tokenize=False, add_generation_prompt=prompt)
        learned = [i for i, m in enumerate(messages) if m["role"] == "assistant" and m.get("weight", 1)]
        documents = []
        for i in learned:
            text, before = say(messages[:i + 1]), say(messages[:i], True)
            assert text.startswith(before)
            encoded = t(text, add_special_tokens=False, return_offsets_mapping=True)
            starts = [o[0] for o in encoded["offset_mapping"]]
            documents.append(dict(ids=encoded["input_ids"],
                                  roles=roles_of(len(starts), [(len(before), len(text), 2 if i == learned[-1] else 1)], starts, len(text))))
        f.write(json.dumps(dict(template="thinks.jinja", record=dict(messages=messages), documents=documents)) + "\n")
