import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonObject } from '../../../protocol/json.ts';
import { makeTemporaryFolder } from '../temporary-folders.ts';

/** The added tokens of the test's tokenizer, after the 256 bytes. Only the first three are special. */
const ADDED = [
  '<|endoftext|>',
  '<|im_start|>',
  '<|im_end|>',
  '<think>',
  '</think>',
  '<tool_call>',
  '</tool_call>',
  'weird token',
];
const FIRST_ADDED = 256;
export const EOS = FIRST_ADDED + ADDED.indexOf('<|im_end|>');
export const END_OF_TEXT = FIRST_ADDED;

/** A ChatML template like those of Qwen's models: tools, calls and reasoning. */
export const CHATML = `{%- if tools %}{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
{{- '# Tools\\n\\n<tools>' }}{%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}
{{- '\\n</tools>\\n\\nReturn <tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{%- endif %}
{%- for message in messages %}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}{{- '<|im_start|>assistant\\n' }}
{%- if message.reasoning_content %}{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}{%- endif %}
{{- message.content }}
{%- if message.tool_calls %}{%- for call in message.tool_calls %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' }}
{%- endfor %}{%- endif %}{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}{%- endif %}`;

/** Writes the files of a model whose tokens are bytes to a new temporary folder. Returns its path. */
export function writeTokenizerFolder({
  template = CHATML,
  config = {},
  inConfig = false,
}: {
  template?: string | null;
  config?: JsonObject;
  inConfig?: boolean;
} = {}): string {
  const folder = makeTemporaryFolder('tokenizer');
  const write = (name: string, value: unknown) => writeFileSync(join(folder, name), JSON.stringify(value));
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: true };
  write('tokenizer.json', {
    version: '1.0',
    added_tokens: ADDED.map((content, at) => ({
      id: FIRST_ADDED + at,
      content,
      special: at < 3 || at === ADDED.length - 1,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
    })),
    normalizer: null,
    pre_tokenizer: byteLevel,
    post_processor: null,
    decoder: byteLevel,
    model: { type: 'BPE', vocab: Object.fromEntries(BYTES.map((char, id) => [char, id])), merges: [] },
  });
  write('tokenizer_config.json', {
    tokenizer_class: 'PreTrainedTokenizerFast',
    eos_token: { content: '<|im_end|>' },
    ...(inConfig && template !== null ? { chat_template: template } : {}),
    ...config,
  });
  write('generation_config.json', { eos_token_id: [EOS, END_OF_TEXT] });
  if (!inConfig && template !== null) writeFileSync(join(folder, 'chat_template.jinja'), template);
  return folder;
}

/** How byte-level tokenizers write each byte in their vocabulary. */
const BYTES = (() => {
  const isShown = (byte: number) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173);
  let hidden = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(isShown(byte) ? byte : hidden++));
})();

/** Encodes text of a model: every added token in the text becomes one token. */
export function bytesOf(text: string): number[] {
  const tokens = new RegExp(`(${ADDED.map(token => token.replace(/\|/g, '\\|')).join('|')})`);
  return text
    .split(tokens)
    .flatMap(part => (ADDED.includes(part) ? FIRST_ADDED + ADDED.indexOf(part) : [...Buffer.from(part)]));
}

/**
 * Decodes a prompt to the text that the model reads. Text that only looks like an added token has `¦` in
 * front of it.
 */
export function textOfBytes(ids: readonly number[]): string {
  let text = '';
  let plain: number[] = [];
  const flush = () => {
    let decoded = Buffer.from(plain).toString('utf8');
    for (const token of ADDED) decoded = decoded.replaceAll(token, `¦${token}`);
    text += decoded;
    plain = [];
  };
  for (const id of ids) {
    const token = ADDED[id - FIRST_ADDED];
    if (token === undefined) plain.push(id);
    else {
      flush();
      text += token;
    }
  }
  flush();
  return text;
}
