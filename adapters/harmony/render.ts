import type { Item, MessageItem, Opaque, Part, ReasoningItem, ToolCallItem } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import type { ModelRequest, OutputFormat, ToolDefinition } from '../../protocol/turn.ts';
import { type ProviderContext, unsupported } from '../http/provider-errors.ts';
import { readDataURL, textOfFile, textOfResult } from '../turn/content.ts';
import { arrayOf, objectOf, objectsOf, shorten, textIn } from '../turn/json-access.ts';
import { offeredTools, resultsByCall } from '../turn/tool-calls.ts';
import { missingResult } from '../turn/transcript.ts';

type RenderOptions = {
  /** For example `2024-06`. */
  knowledgeCutoff: string;
  /** As `YYYY-MM-DD`. */
  today: string;
  context: ProviderContext;
};

/** Renders the whole prompt. Throws a `ProviderError` for other content than text and an unknown reasoning effort. */
export function renderPrompt(request: ModelRequest, options: RenderOptions): Piece[] {
  const { context } = options;
  const tools = offeredTools(request);
  const start = openingLength(request.transcript);
  const opening = request.transcript.slice(0, start).map(textOf);
  const instructions = [request.instructions ?? '', ...opening].filter(text => text !== '').join('\n\n');
  const developer = developerText(instructions, tools, request.output);
  return [
    ...message([text('system')], systemText(request, { ...options, hasTools: tools.length > 0 })),
    ...(developer === '' ? [] : message([text('developer')], developer)),
    ...historyOf(request.transcript.slice(start), context),
    token('start'),
    text('assistant'),
  ];
}

/** How many system and developer messages the transcript begins with; they belong to the instructions. */
function openingLength(transcript: readonly Item[]): number {
  const at = transcript.findIndex(
    item => item.type !== 'message' || (item.role !== 'system' && item.role !== 'developer'),
  );
  return at === -1 ? transcript.length : at;
}

function systemText(
  { settings }: ModelRequest,
  { knowledgeCutoff, today, hasTools, context }: RenderOptions & { hasTools: boolean },
): string {
  const channels =
    '# Valid channels: analysis, commentary, final. Channel must be included for every message.';
  return [
    `You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: ${knowledgeCutoff}\nCurrent date: ${today}`,
    `Reasoning: ${effortOf(settings.reasoningEffort, context)}`,
    hasTools ? `${channels}\nCalls to these tools must go to the commentary channel: 'functions'.` : channels,
  ].join('\n\n');
}

const EFFORTS: Readonly<Record<string, string>> = {
  none: 'low',
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
};

function effortOf(effort: string | undefined, context: ProviderContext): string {
  const known = EFFORTS[effort ?? 'medium'];
  if (known !== undefined) return known;
  throw unsupported(
    `the reasoning effort "${shorten(effort ?? '', 40)}" is unknown. Use low, medium or high.`,
    context,
  );
}

function developerText(
  instructions: string,
  tools: readonly ToolDefinition[],
  output: OutputFormat | undefined,
): string {
  return [
    ...(instructions === '' ? [] : ['# Instructions', instructions]),
    ...(tools.length === 0 ? [] : ['# Tools', '## functions', namespaceOf(tools)]),
    ...(output === undefined ? [] : ['# Response Formats', `## ${output.name}`, formatOf(output)]),
  ].join('\n\n');
}

function namespaceOf(tools: readonly ToolDefinition[]): string {
  const types = tools.map(({ name, description, inputSchema }) => {
    const hasParameters = Object.keys(objectOf(inputSchema.properties)).length > 0;
    const parameters = hasParameters ? `_: ${typescriptType({ ...inputSchema, type: 'object' })}` : '';
    return `${commentLines(description)}type ${name} = (${parameters}) => any;\n\n`;
  });
  return `namespace functions {\n\n${types.join('')}} // namespace functions`;
}

function formatOf({ schema }: OutputFormat): string {
  return `${commentLines(textIn(schema.description))}${JSON.stringify(schema)}`;
}

/** Each call has its result; reasoning is kept behind the last answer only, as the model expects. */
function historyOf(transcript: readonly Item[], context: ProviderContext): Piece[] {
  const results = resultsByCall(transcript);
  const lastFinal = transcript.findLastIndex((_, at) => isFinalAnswer(transcript, at));
  return transcript.flatMap((item, at): Piece[] => {
    switch (item.type) {
      case 'reasoning':
        return at > lastFinal && isKept(item) ? assistantMessage('analysis', item.text) : [];
      case 'message':
        return messageOf(item, isFinalAnswer(transcript, at), context);
      case 'tool_call':
        return [...callOf(item), ...resultOf(item, results.get(item.callId)?.shift())];
      default:
        return [];
    }
  });
}

/** Text in front of a call is a preamble, also if another provider wrote it. */
function isFinalAnswer(transcript: readonly Item[], at: number): boolean {
  const item = transcript[at];
  if (item?.type !== 'message' || item.role !== 'assistant' || textOf(item) === '') return false;
  return !isPreamble(item) && transcript[at + 1]?.type !== 'tool_call';
}

function messageOf(item: MessageItem, isFinal: boolean, context: ProviderContext): Piece[] {
  const content = item.content
    .map(part => partText(part, context))
    .filter(part => part !== '')
    .join(item.role === 'assistant' ? '' : '\n\n');
  if (content === '') return [];
  if (item.role === 'assistant') return assistantMessage(isFinal ? 'final' : 'commentary', content);
  if (item.role === 'user') return message([text('user')], content);
  return message([text('developer')], developerText(content, [], undefined));
}

function assistantMessage(channel: string, content: string): Piece[] {
  return message([text('assistant'), token('channel'), text(channel)], content);
}

function callOf({ name, arguments: written }: ToolCallItem): Piece[] {
  const header = [
    text('assistant'),
    token('channel'),
    text(`commentary to=functions.${headerWord(name)} `),
    token('constrain'),
    text('json'),
  ];
  return message(header, written, 'call');
}

/** A call without a result would leave the model waiting for one. */
function resultOf({ name, callId }: ToolCallItem, result = missingResult(callId)): Piece[] {
  const header = [text(`functions.${headerWord(name)} to=assistant`), token('channel'), text('commentary')];
  return message(header, textOfResult(result));
}

/** Names in headers end at whitespace, and models make names up. */
function headerWord(name: string): string {
  return name.replace(/[\s<|>]+/g, '_');
}

function partText(part: Part, context: ProviderContext): string {
  if (part.type === 'text') return part.text;
  const written = textOfFile(part);
  if (written !== undefined) return written;
  const mediaType = part.type === 'file' ? (part.mediaType ?? readDataURL(part.url)?.mediaType) : undefined;
  const found = part.type === 'image' ? 'an image' : `a file of type ${mediaType || 'unknown'}`;
  throw unsupported(
    `the model reads only text, but the transcript contains ${found}. Use another model for it.`,
    context,
  );
}

function message(header: readonly Piece[], content: string, end: TokenName = 'end'): Piece[] {
  return [token('start'), ...header, token('message'), text(content), token(end)];
}

function text(value: string): Piece {
  return { text: value };
}

function token(name: TokenName): Piece {
  return { token: name };
}

// The Harmony format of gpt-oss models, rendered and parsed here: https://github.com/openai/harmony, docs/format.md.

/** The special tokens of the encoding `o200k_harmony`, with their ids. As text, each is `<|NAME|>`. */
export const TOKEN_IDS = {
  return: 200_002,
  constrain: 200_003,
  channel: 200_005,
  start: 200_006,
  end: 200_007,
  message: 200_008,
  call: 200_012,
} as const;

export type TokenName = keyof typeof TOKEN_IDS;

/** A part of a prompt or of a reply: plain text or one special token. */
export type Piece = { text: string } | { token: TokenName };

export const STOP_TOKENS = ['return', 'call'] as const satisfies readonly TokenName[];

const TOKEN_NAMES = Object.keys(TOKEN_IDS) as TokenName[];

export const TOKENS_BY_TEXT: ReadonlyMap<string, TokenName> = new Map(
  TOKEN_NAMES.map(name => [tokenText(name), name]),
);

export function tokenText(name: TokenName): string {
  return `<|${name}|>`;
}

export const HARMONY = 'harmony';

export function keptOn(channel: 'analysis' | 'commentary'): Opaque {
  return { provider: HARMONY, data: { channel } };
}

function isKept({ opaque }: ReasoningItem): boolean {
  return opaque?.provider === HARMONY;
}

function isPreamble({ opaque }: MessageItem): boolean {
  return opaque?.provider === HARMONY && objectOf(opaque.data).channel === 'commentary';
}

/**
 * The type that the models were trained on, as OpenAI's renderer writes it (openai/harmony, src/encoding.rs), down to
 * indentation and repeated descriptions; in addition `anyOf`, `const`, and lists of types in full.
 */
export function typescriptType(schema: JsonValue | undefined, indent = ''): string {
  if (!isJsonObject(schema)) return 'any';
  if (Array.isArray(schema.oneOf)) return variantsOf(schema, indent);
  if (Array.isArray(schema.anyOf)) {
    return joinTypes(schema.anyOf.map(variant => nullableType(variant, indent)));
  }
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (Array.isArray(schema.type)) {
    return joinTypes(schema.type.map(type => typescriptType({ ...schema, type }, indent)));
  }
  switch (schema.type) {
    case 'object':
      return objectType(schema, indent);
    case 'array':
      return schema.items === undefined ? 'Array<any>' : `${typescriptType(schema.items, indent)}[]`;
    case 'string':
      return quotedEnum(schema) || 'string';
    case 'integer':
    case 'number':
      return 'number';
    case 'boolean':
    case 'null':
      return schema.type;
    default:
      return arrayOf(schema.enum).map(literal).join(' | ') || 'any';
  }
}

function commentLines(text: string, indent = ''): string {
  if (text === '') return '';
  return text
    .split(/\r?\n/)
    .map(line => `${indent}// ${line}\n`)
    .join('');
}

function objectType(schema: JsonObject, indent: string): string {
  const required = new Set(arrayOf(schema.required));
  const members = Object.entries(objectOf(schema.properties)).map(([name, value]) => {
    const property = objectOf(value);
    const mark = required.has(name) ? '' : '?';
    const key = `${/^[\p{L}_$][\p{L}\p{N}_$-]*$/u.test(name) ? name : JSON.stringify(name)}${mark}`;
    return propertyLines(key, property, indent);
  });
  return `${commentLines(textIn(schema.description), indent)}{\n${members.join('')}${indent}}`;
}

function propertyLines(key: string, property: JsonObject, indent: string): string {
  const variants = Array.isArray(property.oneOf) ? objectsOf(property.oneOf) : undefined;
  const [first] = variants ?? [];
  const description = textIn(property.description);
  const isRepeated = first !== undefined && textIn(first.description) === description;
  const head = [
    typeof property.title === 'string' ? `${commentLines(property.title, indent)}${indent}//\n` : '',
    variants === undefined ? commentLines(description, indent) : '',
    examplesIn(property, indent),
    variants === undefined || isRepeated ? '' : commentLines(description, indent),
  ].join('');
  if (variants === undefined) {
    const suffix = defaultOf(property);
    const type = nullableType(property, `${indent}    `);
    return `${head}${indent}${key}: ${type},${suffix === '' ? '' : ` // ${suffix}`}\n`;
  }
  const suffix = defaultOf(property);
  const lines = variants.map((variant, at) => {
    const own = textIn(variant.description);
    const isShown = own === description || (at === 0 && description !== '' && !isRepeated);
    return `${indent} | ${variantType(variant, indent, isShown ? '' : own)}\n`;
  });
  return `${head}${commentLines(suffix, indent)}${indent}${key}:\n${lines.join('')}${indent},\n`;
}

function examplesIn({ examples }: JsonObject, indent: string): string {
  const texts = arrayOf(examples).filter(example => typeof example === 'string');
  return arrayOf(examples).length === 0
    ? ''
    : `${indent}// Examples:\n${texts.map(text => `${indent}// - "${text}"\n`).join('')}`;
}

/** The variants of a `oneOf` outside of a property: one line each, after a line break. */
function variantsOf({ oneOf }: JsonObject, indent: string): string {
  return objectsOf(oneOf)
    .map(variant => `\n${indent} | ${variantType(variant, indent, textIn(variant.description))}`)
    .join('');
}

function variantType(variant: JsonObject, indent: string, description: string): string {
  const comment = [description, defaultOf(variant)].filter(text => text !== '').join(' ');
  const type = nullableType(variant, `${indent}   `);
  return comment === '' ? type : `${type} // ${comment.replace(/[\r\n]+/g, ' ')}`;
}

function nullableType(schema: JsonValue, indent: string): string {
  const type = typescriptType(schema, indent);
  return objectOf(schema).nullable === true && !type.includes('null') ? `${type} | null` : type;
}

/** The default of an enum is written without quotes. */
function defaultOf(schema: JsonObject): string {
  const { default: value } = schema;
  if (value === undefined) return '';
  const isPlain = typeof value === 'string' && arrayOf(schema.enum).length > 0;
  return `default: ${isPlain ? value : literal(value)}`;
}

function quotedEnum(schema: JsonObject): string {
  return arrayOf(schema.enum)
    .filter(value => typeof value === 'string')
    .map(literal)
    .join(' | ');
}

/** OpenAI's renderer does not escape quotes in texts. */
function literal(value: JsonValue): string {
  return typeof value === 'string' ? `"${value}"` : JSON.stringify(value);
}

function joinTypes(types: readonly string[]): string {
  return [...new Set(types)].join(' | ') || 'any';
}

/** A prompt as one text. `<|…|>` in plain text is broken up by a space: the server would read a special token. */
export function promptText(pieces: readonly Piece[]): string {
  return pieces
    .map(piece => ('token' in piece ? tokenText(piece.token) : breakUpTokens(piece.text)))
    .join('');
}

function breakUpTokens(text: string): string {
  return text.replace(/<\|(?=\w+\|>)/g, '< |');
}
