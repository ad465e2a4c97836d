// The built-in template.
#include "chat/chat_model.h"

// The prompt with which Alpaca's models were trained (github.com/tatsu-lab/stanford_alpaca). The
// answer begins on its own line, as in torchtune and axolotl; further turns repeat instruction and
// response.
static const char alpaca[] =
        "{%- set said = namespace(system='', done=false) -%}{%- for m in messages -%}"
        "{%- if m.role == 'system' -%}{%- set said.system = m.content -%}"
        "{%- elif m.role == 'user' -%}"
        "{%- set instruction = m.instruction if m.instruction is defined else m.content -%}"
        "{%- set input = m.input if m.input is defined else '' -%}"
        "{%- if said.done -%}{{ '\\n\\n' }}"
        "{%- elif said.system -%}{{ said.system ~ '\\n\\n' }}"
        "{%- elif input -%}{{ 'Below is an instruction that describes a task, paired with an input that provides "
        "further context. Write a response that appropriately completes the request.\\n\\n' }}"
        "{%- else -%}{{ 'Below is an instruction that describes a task. Write a response that appropriately "
        "completes the request.\\n\\n' }}{%- endif -%}{%- set said.done = true -%}"
        "{{ '### Instruction:\\n' ~ instruction ~ '\\n\\n' }}"
        "{%- if input -%}{{ '### Input:\\n' ~ input ~ '\\n\\n' }}{%- endif -%}{{ '### Response:\\n' }}"
        "{%- elif m.role == 'assistant' -%}{% generation %}{{ m.content ~ eos_token }}{% endgeneration %}"
        "{%- else -%}{{ raise_exception('the template alpaca knows system, user and assistant') }}"
        "{%- endif -%}{%- endfor -%}";

void chat_model_take_alpaca(chat_model *m) {
    m->path = "alpaca";
    m->source = alpaca;
    m->n_source = sizeof alpaca - 1;
    m->built_in = true;
}
