#!/usr/bin/env python3
"""Makes tests/golden/choices: a tiny Llama with random weights and a tokenizer, records of multiple choice in three
forms, and what lm-evaluation-harness makes of them: texts (tasks hellaswag, arc_easy), token ids (_encode_pair) and
log-likelihoods by transformers in double. Needs torch, transformers, tokenizers; the tests need none of them.

    python tools/golden_choices.py tests/golden/choices
"""
import json, pathlib, re, sys
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

HELLASWAG = [
    {"activity_label": "Washing a dog", "ctx_a": "A man fills a tub.", "ctx_b": "the Dog", "label": "2",
     "endings": ["eats  the tub [substeps] slowly.", "sings.", "jumps into the water and shakes.", " [title] runs off"]},
    {"activity_label": "Gärten", "ctx_a": "[header] How to plant a tree [title] Dig a hole. ", "ctx_b": "", "label": 0,
     "endings": ["Put the tree in.", "Eat [the tree", "Sell\u00a0it\u00a0", "Größe zählt"]},
    {"activity_label": "Cooking", "ctx_a": "A pot [a [b] c] is hot   and", "ctx_b": "SHE", "label": "1",
     "endings": ["is a cat", "stirs the [x\ny] soup", "is hot   and hot", "sings a song to the dog"]}]
ARC = [
    {"question": "Which of these is a planet?", "answerKey": "B", "choices":
     {"text": ["the dog", "Mars", "a tub of soup"], "label": ["A", "B", "C"]}},
    {"question": "What is hot? ", "answerKey": "1", "choices":
     {"text": ["the water in a pot that stands on fire", "ice"], "label": ["1", "2"]}}]
GENERIC = [
    {"context": "The dog and the", "choices": ["tree", "cat", "größte Suppe", "soup"], "gold": 1},
    {"query": "A man sings \t ", "choices": ["a song", "the tub"], "label": "0"},
    {"context": "", "choices": ["Dig a hole.", "dog"], "answer": "dog"},
    {"context": "The tree is a tree and " * 12, "choices": ["the water", "a cat"], "gold": 0}]  # beyond the context


def clean(text):
    text = text.strip().replace(" [title]", ". ")
    return re.sub("\\[.*?\\]", "", text).replace("  ", " ")


def texts(r):
    if "endings" in r:
        context = f"{r['activity_label']}: {r['ctx_a']} {r['ctx_b'].capitalize()}"
        return clean(context), [clean(e) for e in r["endings"]], int(r["label"])
    if "question" in r:
        c = r["choices"]
        return f"Question: {r['question']}\nAnswer:", c["text"], c["label"].index(r["answerKey"])
    gold = r.get("gold", r.get("label", r.get("answer")))
    gold = r["choices"].index(gold) if gold in r["choices"] else int(gold)
    return r.get("context", r.get("query")), r["choices"], gold


def pair(tokenizer, context, choice, specials):
    encode = lambda text, add: tokenizer.encode(text, add_special_tokens=add)
    if context == "":
        return [tokenizer.bos_token_id], encode(choice, False)
    n = len(context) - len(context.rstrip())
    if n:
        context, choice = context[:-n], context[-n:] + choice
    ids = encode(context, specials)
    return ids, encode(context + choice, specials)[len(ids):]


def score(model, context, choice):
    ids = (context + choice)[-(model.config.max_position_embeddings + 1):]
    with torch.no_grad():
        logits = model(torch.tensor([ids[:-1]])).logits[0]
    rows = torch.log_softmax(logits[-len(choice):].double(), -1)
    return rows[range(len(choice)), choice].sum().item()


out = pathlib.Path(sys.argv[1])
out.mkdir(exist_ok=True)
records = HELLASWAG + ARC + GENERIC
words = [t for r in records for t in [texts(r)[0], *texts(r)[1]]]
raw = Tokenizer(models.BPE())
raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
raw.train_from_iterator(words, trainers.BpeTrainer(vocab_size=320, special_tokens=["<s>", "</s>"], show_progress=False,
                                                   initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
raw.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>")
tokenizer.save_pretrained(out)
torch.manual_seed(13)
config = LlamaConfig(vocab_size=320, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
                     num_key_value_heads=1, head_dim=8, max_position_embeddings=64, initializer_range=0.3,
                     tie_word_embeddings=True, bos_token_id=0, eos_token_id=1)
model = LlamaForCausalLM(config).eval()
model.save_pretrained(out)
model = model.double()
with open(out / "records.jsonl", "w") as f, open(out / "scores.txt", "w") as g:
    for r in records:
        f.write(json.dumps(r, ensure_ascii=False) + "\n")
        context, choices, gold = texts(r)
        for specials in [True, False]:
            values = [score(model, *pair(tokenizer, context, " " + c, specials)) for c in choices]
            best = max(range(len(values)), key=lambda i: values[i])
            norm = max(range(len(values)), key=lambda i: values[i] / len(choices[i]) if choices[i] else -1e30)
            print(int(specials), gold, int(best == gold), int(norm == gold), len(values), *values, file=g)
