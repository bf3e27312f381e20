// Models behind vLLM's gRPC API with the tokenizer and chat template that come with them.

import type { Template } from '@huggingface/jinja';
import type { Tokenizer } from '@huggingface/tokenizers';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { loadPeer } from '../grpc/adapter.ts';
import { type ProviderContext, unsupported } from '../http/provider-errors.ts';
import { arrayOf, integerIn, jsonIn, nonEmpty, objectOf, objectsOf } from '../turn/json-access.ts';

export type ChatTemplate = { template: Template; source: string };

export type ModelFiles = {
  tokenizer: Tokenizer;
  templateFor(options: { hasTools: boolean }): ChatTemplate;
  /** The special tokens that templates use, such as `bos_token`. */
  specialTokens: JsonObject;
  stopTokens: readonly number[];
  tokenTexts: TokenTexts;
};

/** Reads the tokenizer and the template of a folder. Throws a `ProviderError` for a file it cannot use. */
export async function loadModelFiles(folder: string, context: ProviderContext): Promise<ModelFiles> {
  const [{ Tokenizer }, { Template }] = await Promise.all([
    loadPeer<typeof import('@huggingface/tokenizers')>('@huggingface/tokenizers', context),
    loadPeer<typeof import('@huggingface/jinja')>('@huggingface/jinja', context),
  ]);
  const tokenizerFile = await readJson(folder, 'tokenizer.json', context);
  if (tokenizerFile === undefined) throw missing(fileIn(folder, 'tokenizer.json'), context);
  const config = (await readJson(folder, 'tokenizer_config.json', context)) ?? {};
  const generation = (await readJson(folder, 'generation_config.json', context)) ?? {};
  const sources = sourcesIn(config, await readText(fileIn(folder, 'chat_template.jinja')));
  if (sources.size === 0)
    throw missing(`${fileIn(folder, 'chat_template.jinja')} or a chat_template`, context);
  const tokenizer = usable('tokenizer.json', context, () => new Tokenizer(tokenizerFile, config));
  const specialTokens = specialTokensIn(config);
  const eos = tokenizer.token_to_id(nonEmpty(specialTokens.eos_token) ?? '');
  const templates = new Map<string, ChatTemplate>();
  return {
    tokenizer,
    specialTokens,
    stopTokens: [...new Set([...idsIn(generation.eos_token_id), ...(eos === undefined ? [] : [eos])])],
    tokenTexts: new TokenTexts(
      objectsOf(tokenizerFile.added_tokens).flatMap(({ content, special }) => {
        const text = nonEmpty(content);
        return text === undefined ? [] : [{ text, isSpecial: special === true }];
      }),
    ),
    templateFor({ hasTools }) {
      const source = (hasTools ? sources.get('tool_use') : undefined) ?? sources.get('default') ?? '';
      const known = templates.get(source);
      if (known) return known;
      const template = usable('the chat template', context, () => new Template(source));
      const made = { template, source };
      templates.set(source, made);
      return made;
    },
  };
}

/** The file takes precedence. Old models have several templates, each with a name. */
function sourcesIn({ chat_template: configured }: JsonObject, file: string | undefined): Map<string, string> {
  const named = objectsOf(configured).flatMap(({ name, template }): [string, string][] => {
    const [key, text] = [nonEmpty(name), nonEmpty(template)];
    return key === undefined || text === undefined ? [] : [[key, text]];
  });
  const single = file ?? nonEmpty(configured);
  return new Map([...named, ...(single === undefined ? [] : [['default', single] as const])]);
}

function specialTokensIn(config: JsonObject): JsonObject {
  const tokens: JsonObject = {};
  for (const [name, value] of Object.entries(config)) {
    const text = nonEmpty(value) ?? nonEmpty(objectOf(value).content);
    if (/^[a-z]+_token$/.test(name) && text !== undefined) tokens[name] = text;
  }
  return tokens;
}

function idsIn(value: JsonValue | undefined): number[] {
  return [value, ...arrayOf(value)].flatMap(id => integerIn(id) ?? []);
}

async function readJson(
  folder: string,
  name: string,
  context: ProviderContext,
): Promise<JsonObject | undefined> {
  const text = await readText(fileIn(folder, name));
  if (text === undefined) return undefined;
  const value = jsonIn(text);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw unsupported(`${fileIn(folder, name)} must contain a JSON object.`, context);
}

function fileIn(folder: string, name: string): string {
  return `${folder.replace(/(?<![\\/])[\\/]+$/, '')}/${name}`;
}

async function readText(path: string): Promise<string | undefined> {
  try {
    return await process.getBuiltinModule('node:fs/promises').readFile(path, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw error;
  }
}

function usable<Value>(what: string, context: ProviderContext, make: () => Value): Value {
  try {
    return make();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw unsupported(`${what} cannot be used: ${reason}`, context);
  }
}

function missing(what: string, context: ProviderContext): Error {
  return unsupported(
    `${what} does not exist. Set VLLM_TOKENIZER or the option tokenizer to a folder with the tokenizer and chat template of the model.`,
    context,
  );
}

type Decode = (ids: readonly number[]) => string;

/** How many tokens may wait for the rest of a character. Characters have at most four bytes. */
const MOST_WAITING = 8;

/** Decodes a reply's tokens as they come: a token's text may depend on those before it. */
export class TokenText {
  readonly #decode: Decode;
  /** The tokens of the last text, and those whose text is not complete. */
  #window: number[] = [];
  #read = 0;

  constructor(decode: Decode) {
    this.#decode = decode;
  }

  push(ids: readonly number[]): string {
    let text = '';
    for (const id of ids) {
      this.#window.push(id);
      const fresh = this.#fresh();
      const isWaiting = fresh === '' || fresh.endsWith('\uFFFD');
      if (isWaiting && this.#window.length - this.#read <= MOST_WAITING) continue;
      text += fresh;
      this.#window = this.#window.slice(this.#read);
      this.#read = this.#window.length;
    }
    return text;
  }

  end(): string {
    const text = this.#fresh();
    this.#window = [];
    this.#read = 0;
    return text;
  }

  #fresh(): string {
    const before = this.#decode(this.#window.slice(0, this.#read));
    return this.#decode(this.#window).slice(before.length);
  }
}

/** Text in angle or square brackets, as most special tokens are written. */
const BRACKETED = /<[^<>\s]{1,64}>|\[[^[\]\s]{1,64}\]/g;

/** Texts that a tokenizer turns into single tokens, such as `<|im_end|>`, which messages must not contain. */
export class TokenTexts {
  readonly #bracketed: ReadonlySet<string>;
  readonly #other: readonly string[];

  /** `tokens` are the tokenizer's added tokens. Those that are neither special nor in brackets are harmless. */
  constructor(tokens: readonly { text: string; isSpecial: boolean }[]) {
    const isBracketed = (text: string) => text.match(BRACKETED)?.[0] === text;
    this.#bracketed = new Set(tokens.flatMap(({ text }) => (isBracketed(text) ? text : [])));
    this.#other = tokens.flatMap(({ text, isSpecial }) =>
      isSpecial && text.length > 1 && !isBracketed(text) ? text : [],
    );
  }

  /** Breaks up every such text by a space: `<|im_end|>` becomes `< |im_end|>`. */
  breakUp(text: string): string {
    let broken = text.replace(BRACKETED, found => (this.#bracketed.has(found) ? split(found) : found));
    for (const other of this.#other) broken = broken.replaceAll(other, split(other));
    return broken;
  }

  breakUpIn(value: JsonObject): JsonObject {
    return this.#map(value) as JsonObject;
  }

  #map(value: JsonValue): JsonValue {
    if (typeof value === 'string') return this.breakUp(value);
    if (Array.isArray(value)) return value.map(member => this.#map(member));
    if (!isJsonObject(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [this.breakUp(name), this.#map(member)]),
    );
  }
}

function split(text: string): string {
  return `${text.slice(0, 1)} ${text.slice(1)}`;
}

/** Other ways to write calls, by what templates with them contain. */
const OTHER_FORMS: readonly (readonly [mark: string, name: string])[] = [
  ['<|channel|>', 'the Harmony format; use agentchart/adapters/harmony'],
  ['<function=', 'the XML format of Qwen3-Coder, <function=…>'],
  ['<arg_key>', 'the format of GLM, <arg_key>'],
  ['[TOOL_CALLS]', 'the format of Mistral, [TOOL_CALLS]'],
  ['<｜tool▁calls▁begin｜>', 'the format of DeepSeek, <｜tool▁calls▁begin｜>'],
  ['<|tool_calls_section_begin|>', 'the format of Kimi, <|tool_calls_section_begin|>'],
  ['<|python_tag|>', 'the format of Llama 3, <|python_tag|>'],
  ['<|tool_call|>', 'the format of Granite, <|tool_call|>'],
  ['tool_code', 'the format of Gemma, tool_code'],
];

/** Renders a call. If it is not in `<tool_call>`, throws a `ProviderError` that names the template's form. */
export function assertCallForm({ template, source }: ChatTemplate, context: ProviderContext): void {
  const [, opened = ''] = (renderProbe(template).split('PROBE').at(-1) ?? '').split('<tool_call>');
  const [written = '', closed] = opened.split('</tool_call>');
  const call = objectOf(closed === undefined ? undefined : jsonIn(written));
  if (call.name === 'probe' && objectOf(call.arguments).city === 'x') return;
  const form = OTHER_FORMS.find(([mark]) => source.includes(mark))?.[1] ?? 'another format';
  throw unsupported(
    `its chat template writes tool calls in ${form}. Only <tool_call>{"name": …, "arguments": …}</tool_call> is supported. Use the server's HTTP API with its own tool parser, or no tools.`,
    context,
  );
}

function renderProbe(template: Template): string {
  const parameters = { type: 'object', properties: { city: { type: 'string' } } };
  const probe = { name: 'probe', description: 'probe', parameters };
  const call = { id: 'call00000', type: 'function', function: { name: 'probe', arguments: { city: 'x' } } };
  try {
    return template.render({
      messages: [
        { role: 'user', content: 'PROBE' },
        { role: 'assistant', content: '', tool_calls: [call] },
        { role: 'tool', tool_call_id: call.id, name: 'probe', content: '1' },
      ],
      tools: [{ type: 'function', function: probe }],
      add_generation_prompt: true,
    });
  } catch {
    return '';
  }
}
