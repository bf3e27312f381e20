// Models behind vLLM's gRPC API with the tokenizer and chat template that come with them.
import type { Template } from '@huggingface/jinja';
import type { Tokenizer } from '@huggingface/tokenizers';
import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import { loadPeer } from '../grpc/load-peer.ts';
import { type ProviderContext, unsupported } from '../http/provider-errors.ts';
import { arrayOf, integerIn, jsonIn, nonEmpty, objectOf, objectsOf } from '../turn/json-access.ts';
import { TokenTexts } from './token-texts.ts';

/** A chat template and its source. */
export type ChatTemplate = { template: Template; source: string };

/** What the files of a model say about it. */
export type ModelFiles = {
  tokenizer: Tokenizer;
  /** The template for requests with or without tools. */
  templateFor(options: { hasTools: boolean }): ChatTemplate;
  /** The special tokens that templates use, such as `bos_token`. */
  specialTokens: JsonObject;
  /** Ids that end a reply. */
  stopTokens: readonly number[];
  /** The texts that the tokenizer would turn into single tokens. */
  tokenTexts: TokenTexts;
};

/**
 * Reads `tokenizer.json`, `tokenizer_config.json`, and, if present, `chat_template.jinja` and
 * `generation_config.json` from a folder, such as a snapshot of a model. Throws a `ProviderError` if a file
 * is missing or unusable.
 */
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
