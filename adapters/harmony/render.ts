import type { Item, MessageItem, Part, ToolCallItem, ToolResultItem } from '../../protocol/item.ts';
import { textOf } from '../../protocol/message.ts';
import type { ModelRequest, OutputFormat, ToolDefinition } from '../../protocol/turn.ts';
import { type ProviderContext, unsupported } from '../http/provider-errors.ts';
import { textOfBase64 } from '../turn/base64.ts';
import { readDataURL } from '../turn/data-url.ts';
import { objectOf, shorten, textIn } from '../turn/json-access.ts';
import { textOfResult } from '../turn/result-content.ts';
import { resultsByCall } from '../turn/results-by-call.ts';
import { isKept, isPreamble } from './opaque-data.ts';
import type { Piece, TokenName } from './tokens.ts';
import { commentLines, typescriptType } from './typescript-type.ts';

/** Inputs of `renderPrompt` besides the model request. */
type RenderOptions = {
  /** For example `2024-06`. */
  knowledgeCutoff: string;
  /** As `YYYY-MM-DD`. */
  today: string;
  /** For error messages. */
  context: ProviderContext;
};

/**
 * Renders a request as the whole prompt of a gpt-oss model, which ends where the model's reply begins. Throws
 * a `ProviderError` for content other than text and for an unknown reasoning effort.
 */
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

/** The format has no tool choice, so tools that the model must not call are not shown to it. */
function offeredTools({ tools, toolChoice }: ModelRequest): readonly ToolDefinition[] {
  if (toolChoice === 'none') return [];
  return typeof toolChoice === 'string' ? tools : tools.filter(tool => tool.name === toolChoice.name);
}

/** How many system and developer messages the transcript begins with; they belong to the instructions. */
function openingLength(transcript: readonly Item[]): number {
  const at = transcript.findIndex(item => item.type !== 'message' || !isInstruction(item));
  return at === -1 ? transcript.length : at;
}

function isInstruction({ role }: MessageItem): boolean {
  return role === 'system' || role === 'developer';
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

/**
 * Renders the history. Each call is followed by its result. Reasoning is kept only behind the last final
 * answer, because the model expects it only while it is still making calls. Control items, items of provider
 * tools, other providers' reasoning, and results without a call are omitted.
 */
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
function resultOf({ name }: ToolCallItem, result: ToolResultItem | undefined): Piece[] {
  const header = [text(`functions.${headerWord(name)} to=assistant`), token('channel'), text('commentary')];
  return message(header, textOfResult(result ?? MISSING));
}

const MISSING: Pick<ToolResultItem, 'isError' | 'output' | 'shown'> = {
  isError: true,
  output: 'The result of this call is not known.',
};

/** Names in headers end at whitespace, and models make names up. */
function headerWord(name: string): string {
  return name.replace(/[\s<|>]+/g, '_');
}

/** Returns the text of a part. Files count if they are text in a `data:` URL. */
function partText(part: Part, context: ProviderContext): string {
  if (part.type === 'text') return part.text;
  const data = readDataURL(part.url);
  const mediaType = (part.type === 'file' ? part.mediaType : undefined) ?? data?.mediaType ?? '';
  if (part.type === 'file' && data && /^text\/|[/+](?:json|xml|yaml)$/.test(mediaType)) {
    return textOfBase64(data.base64);
  }
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
