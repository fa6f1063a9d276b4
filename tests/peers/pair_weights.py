"""Writes the weights of a tiny language model for llama.cpp: each token decides the next one.

It calls the tool named in the second argument, with the arguments in the third, whenever it is
offered tools, and says one sentence otherwise and after a result. The embedding is one-hot and all
layers are zero, so that the output layer is a table of pairs of tokens. Runs in the environment
“llama” of `installing.py`.
"""

import sys

import gguf  # type: ignore[import-not-found]
import numpy as np  # type: ignore[import-not-found,unused-ignore]

ANSWER = "The sum is 5."
LETTERS = 256
START, END, CALL, SAY = range(LETTERS, LETTERS + 4)
SIZE = 264
# As Qwen and Hermes have it. What the model is to do depends on the last character of the prompt.
TEMPLATE = """
{%- if tools %}{{- '<|im_start|>system\\nTools: <tools>\\n' }}
{%- for tool in tools %}{{- tool | tojson }}{{- '\\n' }}{%- endfor %}
{{- '</tools>\\nFor each call return <tool_call>\\n{"name": <name>, "arguments": <args>}\\n' }}
{{- '</tool_call><|im_end|>\\n' }}{%- endif %}
{%- for m in messages %}
{%- if m.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + m.content + '\\n</tool_response><|im_end|>\\n' }}
{%- else %}{{- '<|im_start|>' + m.role + '\\n' }}{%- if m.content %}{{- m.content }}{%- endif %}
{%- for call in m.tool_calls or [] %}
{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson }}{{- '}\\n</tool_call>' }}{%- endfor %}
{{- '<|im_end|>\\n' }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}
{%- if messages[-1].role == 'tool' or not tools %}{{- '\\t' }}{%- endif %}{%- endif %}"""


def list_letters() -> list[str]:
    """The 256 letters that GPT-2's tokenizer has for the bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(b) if b in plain else chr(256 + others.index(b)) for b in range(256)]


def main(path: str, tool: str, arguments: str) -> None:
    letters = list_letters()

    def encode(text: str) -> str:
        return "".join(letters[byte] for byte in text.encode())

    call = f'<tool_call>\n{{"name": "{tool}", "arguments": {arguments}}}\n</tool_call>'
    named = ["<|im_start|>", "<|im_end|>", encode(call), encode(ANSWER), "he"]
    tokens = [*letters, *named]
    file = gguf.GGUFWriter(path, "llama")
    file.add_name("pairs")
    file.add_context_length(16_384)
    file.add_embedding_length(SIZE)
    file.add_feed_forward_length(32)
    file.add_block_count(1)
    file.add_head_count(2)
    file.add_head_count_kv(2)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_rope_dimension_count(SIZE // 2)
    file.add_vocab_size(len(tokens))
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre("gpt-2")
    file.add_token_list(tokens)
    file.add_token_types([1] * LETTERS + [3, 3, 1, 1, 1])
    file.add_token_merges(["h e"])  # there must be one
    file.add_bos_token_id(START)
    file.add_eos_token_id(END)
    file.add_add_bos_token(False)
    file.add_chat_template(TEMPLATE)
    embedding = np.eye(len(tokens), SIZE, dtype=np.float32)
    output = np.zeros((len(tokens), SIZE), np.float32)
    for token, following in ((ord("\n"), CALL), (ord("\t"), SAY), (CALL, END), (SAY, END)):
        output[following, token] = 10
    ones, square = np.ones(SIZE, np.float32), np.zeros((SIZE, SIZE), np.float32)
    wide = np.zeros((32, SIZE), np.float32)
    file.add_tensor("token_embd.weight", embedding)
    file.add_tensor("output_norm.weight", ones)
    file.add_tensor("output.weight", output)
    for name in "attn_q", "attn_k", "attn_v", "attn_output":
        file.add_tensor(f"blk.0.{name}.weight", square)
    for name, values in ("gate", wide), ("up", wide), ("down", wide.T.copy()):
        file.add_tensor(f"blk.0.ffn_{name}.weight", values)
    for name in "attn_norm", "ffn_norm":
        file.add_tensor(f"blk.0.{name}.weight", ones)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
