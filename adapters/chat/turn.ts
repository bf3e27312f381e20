import { ProviderError } from '../../protocol/error.ts';
import type { Opaque, Part } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { FinishReason, ModelRequest, ModelTurn, TurnDelta, Usage } from '../../protocol/turn.ts';
import { errorFromBody, malformedStream, type ProviderContext } from '../http/provider-errors.ts';
import { showJson } from '../http/redact-secrets.ts';
import { arrayOf, integerIn, nonEmpty, objectOf, objectsOf, textIn } from '../turn/json-access.ts';
import { type AnswerReader, isErrorBody } from '../turn/single-turn.ts';
import { CallAccumulator, type CallFragment, toolCall } from '../turn/tool-calls.ts';
import { finishReasons, TurnBuilder } from '../turn/turn-builder.ts';
import { normalizeUsage } from '../turn/usage.ts';
import type { ChatDialect } from './dialect.ts';

/** Where a message has reasoning outside of its content. Providers repeat the same text in several. */
const REASONING_MEMBERS = ['reasoning_content', 'reasoning', 'reasoning_details'] as const;
type ReasoningMember = (typeof REASONING_MEMBERS)[number];

/**
 * Accumulates the message of one turn, from deltas or from a complete message.
 *
 * A1 A delta may contain reasoning, content and calls at once; each is read.
 * A2 Reasoning text is read from one member, the first that has text; the other members repeat it.
 * A3 The calls of a complete message are taken from its list as they are; those of deltas are assembled.
 * A4 A generated image arrives complete, outside of the content; a repeated URL is the same image.
 */
class Answer {
  text = '';
  /** Reasoning outside of the content, and the member it was in. */
  reasoning = '';
  reasoningMember: ReasoningMember | undefined;
  refusal = '';
  /** The message's `extra_content`: Gemini's signature of a text, in the last delta. Others have none. */
  extra: JsonObject | undefined;
  readonly content = new ContentChunks();
  readonly details = new ReasoningDetails();
  readonly annotations: JsonValue[] = [];
  readonly images = new Set<string>();
  readonly calls = new CallAccumulator();
  readonly executed: JsonObject[] = [];
  readonly #executedAt = new Map<number, JsonObject>();
  readonly #dialect: ChatDialect;

  constructor(dialect: ChatDialect) {
    this.#dialect = dialect;
  }

  readMessage(message: JsonObject): void {
    for (const detail of objectsOf(message.reasoning_details)) this.details.add(detail);
    this.#readText(message);
    for (const call of objectsOf(message.tool_calls)) this.calls.add(this.#fragmentOf(call));
    if (isJsonObject(message.function_call)) this.calls.add(legacyFragment(message.function_call));
    this.#readExecuted(message);
  }

  *readDelta(delta: JsonObject): Generator<TurnDelta, void> {
    for (const piece of objectsOf(delta.reasoning_details)) this.details.push(piece);
    yield* this.#readText(delta);
    for (const call of objectsOf(delta.tool_calls)) yield* this.calls.push(this.#fragmentOf(call));
    if (isJsonObject(delta.function_call)) yield* this.calls.push(legacyFragment(delta.function_call));
    this.#readExecuted(delta);
  }

  #readText(source: JsonObject): TurnDelta[] {
    const deltas: TurnDelta[] = [];
    const reasoning = this.#reasoningIn(source);
    if (reasoning !== '') {
      this.reasoning += reasoning;
      this.content.addReasoning(reasoning);
      deltas.push({ type: 'reasoning', text: reasoning });
    }
    for (const chunk of chunksOf(source.content)) {
      const read = this.content.add(this.#withoutRepetition(chunk));
      if (read.text === '') continue;
      if (read.type === 'text') this.text += read.text;
      deltas.push(read);
    }
    this.refusal += textIn(source.refusal);
    this.extra = extraOf(source) ?? this.extra;
    this.annotations.push(...arrayOf(source.annotations));
    for (const image of objectsOf(source.images)) {
      const url = nonEmpty(objectOf(image.image_url).url);
      if (url !== undefined) this.images.add(url);
    }
    return deltas;
  }

  #reasoningIn(source: JsonObject): string {
    const candidates = this.reasoningMember === undefined ? REASONING_MEMBERS : [this.reasoningMember];
    for (const member of candidates) {
      const text = member === 'reasoning_details' ? textOfDetails(source) : textIn(source[member]);
      if (text === '') continue;
      this.reasoningMember = member;
      return this.#dialect.resendsText ? newSuffix(this.reasoning, text) : text;
    }
    return '';
  }

  #withoutRepetition(chunk: JsonObject): JsonObject {
    if (!this.#dialect.resendsText || chunk.type !== 'text') return chunk;
    return { ...chunk, text: newSuffix(this.text, textIn(chunk.text)) };
  }

  #fragmentOf(call: JsonObject): CallFragment {
    const called = objectOf(call.function);
    return {
      ...omitUndefined({ id: nonEmpty(call.id), extra: extraOf(call) }),
      index: integerIn(call.index) ?? null,
      name: nonEmpty(called.name) ?? null,
      arguments: called.arguments ?? null,
    };
  }

  #readExecuted(source: JsonObject): void {
    for (const tool of objectsOf(source.executed_tools)) {
      const index = integerIn(tool.index) ?? this.executed.length;
      const known = this.#executedAt.get(index);
      if (known) Object.assign(known, tool);
      else {
        const entry = { ...tool };
        this.executed.push(entry);
        if (integerIn(tool.index) !== undefined) this.#executedAt.set(index, entry);
      }
    }
  }
}

function extraOf({ extra_content }: JsonObject): JsonObject | undefined {
  return isJsonObject(extra_content) ? { extra_content } : undefined;
}

/** The API's older form of a call: one `function_call` per message, without an id. */
function legacyFragment({ name, arguments: text }: JsonObject): CallFragment {
  return { index: -1, name: nonEmpty(name) ?? null, arguments: text ?? null };
}

function chunksOf(content: JsonValue | undefined): JsonObject[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  return arrayOf(content).filter(isJsonObject);
}

function textOfDetails(source: JsonObject): string {
  return objectsOf(source.reasoning_details).map(detailText).join('');
}

/** One thinking chunk, reasoning outside of the content, or all other chunks up to the next reasoning. */
type Stretch =
  | { type: 'thinking'; chunk: JsonObject }
  | { type: 'reasoning'; pieces: string[] }
  | { type: 'text'; chunks: JsonObject[] };

/** Message content that arrives as text, as chunks, or as a mix. Adjacent chunks of one kind are joined. */
class ContentChunks {
  readonly stretches: Stretch[] = [];

  addReasoning(text: string): void {
    const last = this.stretches.at(-1);
    if (last?.type === 'reasoning') last.pieces.push(text);
    else this.stretches.push({ type: 'reasoning', pieces: [text] });
  }

  add(chunk: JsonObject): { type: 'text' | 'reasoning'; text: string } {
    const last = this.stretches.at(-1);
    if (chunk.type === 'thinking') {
      if (last?.type === 'thinking') last.chunk = joinedThinking(last.chunk, chunk);
      else this.stretches.push({ type: 'thinking', chunk: joinedThinking({}, chunk) });
      return { type: 'reasoning', text: thinkingText(chunk) };
    }
    const text = chunkText(chunk);
    if (last?.type === 'text') addToStretch(last.chunks, chunk);
    else if (chunk.type !== 'text' || text !== '')
      this.stretches.push({ type: 'text', chunks: [{ ...chunk }] });
    return { type: 'text', text };
  }
}

function thinkingText(chunk: JsonObject): string {
  return typeof chunk.thinking === 'string'
    ? chunk.thinking
    : partsOf(chunk.thinking).map(chunkText).join('');
}

export function chunkText(chunk: JsonObject): string {
  return chunk.type === 'text' ? textIn(chunk.text) : '';
}

function joinedThinking(known: JsonObject, chunk: JsonObject): JsonObject {
  if (typeof chunk.thinking === 'string') {
    return { ...known, ...chunk, thinking: textIn(known.thinking) + chunk.thinking };
  }
  const parts = partsOf(known.thinking);
  for (const part of partsOf(chunk.thinking)) addToStretch(parts, part);
  return { ...known, ...chunk, thinking: parts };
}

function partsOf(value: JsonValue | undefined): JsonObject[] {
  return arrayOf(value).filter(isJsonObject);
}

function addToStretch(chunks: JsonObject[], chunk: JsonObject): void {
  const last = chunks.at(-1);
  if (chunk.type === 'text' && last?.type === 'text') last.text = chunkText(last) + chunkText(chunk);
  else chunks.push({ ...chunk });
}

/**
 * Assembles OpenRouter's `reasoning_details` from pieces.
 *
 * R1 Pieces with the same type, index and id form one detail. A piece without an index belongs to the last
 *    detail if type and id match.
 * R2 `text`, `summary` and `data` are concatenated; for all other members, such as the signature, the last
 *    value wins.
 */
export class ReasoningDetails {
  #details: JsonObject[] = [];

  add(detail: JsonObject): void {
    this.#details.push({ ...detail });
  }

  push(piece: JsonObject): void {
    const detail = this.#find(piece);
    if (!detail) {
      this.add(piece);
      return;
    }
    for (const [name, value] of Object.entries(piece)) {
      if (value === null) continue;
      detail[name] = JOINED.has(name) ? joined(detail[name], value) : value;
    }
  }

  all(): JsonObject[] {
    return this.#details;
  }

  #find(piece: JsonObject): JsonObject | undefined {
    if (typeof piece.index !== 'number') {
      const last = this.#details.at(-1);
      return last && typeof last.index !== 'number' && isSame(last, piece) ? last : undefined;
    }
    return this.#details
      .slice(-SEARCHED)
      .find(detail => detail.index === piece.index && isSame(detail, piece));
  }
}

/** A piece belongs to one of the latest details; older ones are not searched. */
const SEARCHED = 64;

const JOINED: ReadonlySet<string> = new Set(['text', 'summary', 'data']);

function isSame(detail: JsonObject, piece: JsonObject): boolean {
  const [knownId, id] = [nonEmpty(detail.id), nonEmpty(piece.id)];
  return detail.type === piece.type && (knownId === undefined || id === undefined || knownId === id);
}

function joined(known: JsonValue | undefined, piece: JsonValue): JsonValue {
  if (typeof piece !== 'string') return piece;
  const text = textIn(known);
  return text + newSuffix(text, piece);
}

function detailText(detail: JsonObject): string {
  return detail.type === 'reasoning.summary' ? textIn(detail.summary) : textIn(detail.text);
}

/** Whether the provider accepts a detail when it is sent back. Anthropic's text needs its signature. */
export function isReplayable({ type, format, signature }: JsonObject): boolean {
  const anthropic = nonEmpty(format)?.startsWith('anthropic') === true;
  return !(anthropic && type === 'reasoning.text' && nonEmpty(signature) === undefined);
}

/** What a piece adds, if it may be the full text again. A short piece is unchanged: ordinary text may repeat it. */
export function newSuffix(known: string, piece: string): string {
  const isConclusive = piece.length > known.length || (piece.length === known.length && known.length > 20);
  return isConclusive && piece.startsWith(known) && WORD.test(known) ? piece.slice(known.length) : piece;
}

const WORD = /\p{L}{3}/u;

/** Reads one answer. Chunks after the finish reason do not reset it, and may have the usage. */
export class ChatReader implements AnswerReader {
  readonly #request: ModelRequest;
  readonly #dialect: ChatDialect;
  readonly #context: ProviderContext;
  readonly #answer: Answer;
  /** The provider's finish reason, empty if it sent none. */
  #finish = '';
  #usage: Usage | null = null;
  /** The last chunk that lists sources: each repeats them. */
  #sources: JsonObject = {};
  #model: string;

  constructor(request: ModelRequest, dialect: ChatDialect, context: ProviderContext) {
    this.#request = request;
    this.#dialect = dialect;
    this.#context = context;
    this.#answer = new Answer(dialect);
    this.#model = context.model;
  }

  get progress(): 'open' | 'ended' {
    return this.#finish === '' ? 'open' : 'ended';
  }

  read(body: JsonObject): ModelTurn {
    const choice = firstChoice(body);
    if (!choice) throw malformedStream('the response has no choices', this.#context, body);
    throwIfFailed(choice, this.#context);
    this.#answer.readMessage(objectOf(choice.message));
    this.#readEnding(body, choice);
    return this.end();
  }

  *push(chunk: JsonObject): Generator<TurnDelta, void> {
    const choice = firstChoice(chunk);
    if (choice) {
      yield* this.#answer.readDelta(objectOf(choice.delta));
      throwIfFailed(choice, this.#context);
    }
    this.#readEnding(chunk, choice);
  }

  end(): ModelTurn {
    const { provider, reasoning } = this.#dialect;
    const { calls, executed, refusal, images, text } = this.#answer;
    const turn = new TurnBuilder(this.#request);
    for (const tool of executed) {
      turn.addProviderItem(nonEmpty(tool.type) ?? 'executed_tool', { provider, data: { executed: tool } });
    }
    this.#addContent(turn);
    // Generated images are only for display: these APIs accept no image in an assistant message.
    const content = [...images].map((url): Part => ({ type: 'image', url }));
    if (content.length > 0) turn.items.push({ type: 'message', role: 'assistant', content });
    turn.text = text;
    for (const { id, name, arguments: written, extra } of calls.calls()) {
      const wireId = reasoning === 'details' && id !== null ? id : undefined;
      const kept = this.#keep(omitUndefined({ wireId, extra }));
      turn.addCall(toolCall(turn.nextCallId(id), name, written), kept);
    }
    return turn.turn({
      finishReason: finishReasonOf(this.#finish, {
        calls: turn.toolCalls.length > 0,
        providerCalls: executed.length > 0,
        refused: refusal !== '',
      }),
      usage: this.#usage,
      model: this.#model,
    });
  }

  /** Annotations, refusal and `extra` belong to the last text, `reasoning_details` to the first reasoning. */
  #addContent(turn: TurnBuilder): void {
    const { reasoning: form } = this.#dialect;
    const { content, details, extra, reasoningMember, refusal } = this.#answer;
    const annotations =
      this.#answer.annotations.length > 0 ? this.#answer.annotations : sourcesIn(this.#sources);
    const { stretches } = content;
    const [firstText, firstReasoning] = (['text', 'reasoning'] as const).map(type =>
      stretches.findIndex(stretch => stretch.type === type),
    );
    const lastText = stretches.findLastIndex(stretch => stretch.type === 'text');
    const allDetails: Kept = form === 'details' && details.all().length > 0 ? { details: details.all() } : {};
    const member = form === 'member' || form === 'required' ? reasoningMember : undefined;
    const addMessage = (chunks: JsonObject[], { isLast, isMore }: { isLast: boolean; isMore: boolean }) => {
      const text = chunks.map(chunkText).join('');
      const notes = isLast && annotations.length > 0 ? { annotations: [...annotations] } : {};
      const opaque = this.#keep({
        ...(chunks.some(chunk => chunk.type !== 'text') && { chunks: [...chunks] }),
        ...(isLast && refusal !== '' && { refusal }),
        ...(isLast && extra !== undefined && { extra }),
        ...(isMore && { more: true }),
      });
      const parts: Part[] = text === '' ? [] : [{ type: 'text', text, ...notes }];
      turn.items.push({ type: 'message', role: 'assistant', content: parts, ...(opaque && { opaque }) });
    };
    if (allDetails.details && firstReasoning === -1) turn.addReasoning('', this.#keep(allDetails));
    for (const [at, stretch] of stretches.entries()) {
      if (stretch.type === 'thinking') {
        turn.addReasoning(thinkingText(stretch.chunk), this.#keep({ chunk: stretch.chunk }));
      } else if (stretch.type === 'reasoning') {
        const kept = { ...(at === firstReasoning && allDetails), ...omitUndefined({ member }) };
        turn.addReasoning(stretch.pieces.join(''), this.#keep(kept));
      } else {
        const isMore = at !== firstText && stretches[at - 1]?.type === 'reasoning';
        addMessage(stretch.chunks, { isLast: at === lastText, isMore });
      }
    }
    const hasMore = refusal !== '' || extra !== undefined;
    if (hasMore && lastText === -1) addMessage([], { isLast: true, isMore: false });
  }

  #keep(kept: Kept): Opaque | undefined {
    if (Object.keys(kept).length === 0) return undefined;
    return { provider: this.#dialect.provider, data: { ...kept } };
  }

  #readEnding(source: JsonObject, choice: JsonObject | undefined): void {
    this.#finish = nonEmpty(choice?.finish_reason) ?? this.#finish;
    this.#usage = usageIn(source, choice) ?? this.#usage;
    if (source.citations ?? source.search_results) this.#sources = source;
    this.#model = nonEmpty(source.model) ?? this.#model;
  }
}

/** Only the first of several choices is read. */
function firstChoice({ choices }: JsonObject): JsonObject | undefined {
  return objectsOf(choices).find(choice => (integerIn(choice.index) ?? 0) === 0);
}

/** The sources of the answer that xAI and Perplexity list beside the choices. */
function sourcesIn({ citations, search_results: found }: JsonObject): JsonValue[] {
  const titles = new Map<string, string>();
  for (const url of arrayOf(citations)) titles.set(textIn(url), '');
  for (const { url, title } of objectsOf(found)) titles.set(textIn(url), textIn(title));
  titles.delete('');
  return [...titles].map(([url, title]) => ({
    type: 'url_citation',
    url_citation: { url, ...(title !== '' && { title }) },
  }));
}

/** Groq sends usage in `x_groq`, Moonshot in the choice. */
function usageIn(chunk: JsonObject, choice: JsonObject | undefined): Usage | null {
  return usageOf(chunk.usage) ?? usageOf(objectOf(chunk.x_groq).usage) ?? usageOf(choice?.usage);
}

function throwIfFailed(choice: JsonObject, context: ProviderContext): void {
  if (isErrorBody({ error: choice.error ?? null })) {
    throw errorFromBody({ error: choice.error ?? null }, context);
  }
  const finish = nonEmpty(choice.finish_reason) ?? '';
  if (!isFailure(finish)) return;
  const code = finish === 'error' ? 'server_error' : finish;
  const error = { code, message: `the answer ended with the finish reason "${finish}"` };
  const { message, ...details } = errorFromBody({ error }, context);
  throw new ProviderError(message, { ...details, raw: showJson(choice, context.secrets) });
}

const REASONS = finishReasons(
  ['stop', 'stop', 'end_turn', 'stop_sequence', 'eos', 'eos_token'],
  ['length', 'length', 'model_length', 'max_tokens'],
  ['tool_calls', 'tool_calls', 'function_call', 'tool_use'],
  ['content_filter', 'content_filter'],
);

/** Calls override `stop` and unknown reasons; `tool_calls` caused by calls that the provider ran is a `stop`. */
function finishReasonOf(
  finish: string,
  turn: { calls: boolean; providerCalls: boolean; refused: boolean },
): FinishReason {
  const reason = REASONS.get(finish) ?? 'unknown';
  if (turn.calls) return reason === 'length' || reason === 'content_filter' ? reason : 'tool_calls';
  if (turn.refused) return 'content_filter';
  return reason === 'tool_calls' && turn.providerCalls ? 'stop' : reason;
}

function isFailure(finish: string): boolean {
  return finish === 'error' || finish === 'insufficient_system_resource';
}

function usageOf(value: JsonValue | undefined): Usage | null {
  const usage = objectOf(value);
  const input = objectOf(usage.prompt_tokens_details);
  const reasoning = objectOf(usage.completion_tokens_details).reasoning_tokens;
  return normalizeUsage({
    input: usage.prompt_tokens,
    output: outputTokens(usage, reasoning),
    cachedInput: input.cached_tokens ?? usage.prompt_cache_hit_tokens ?? usage.cached_tokens,
    cacheWrite: input.cache_write_tokens,
    reasoning,
  });
}

/** Grok does not include reasoning in the completion count: its total is then the sum of all three. */
function outputTokens(usage: JsonObject, reasoning: JsonValue | undefined): JsonValue | undefined {
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = usage;
  if (typeof completion !== 'number' || typeof reasoning !== 'number' || reasoning <= 0) return completion;
  const apart = typeof prompt === 'number' && total === prompt + completion + reasoning;
  return apart ? completion + reasoning : completion;
}

/**
 * The provider data that an item keeps in its `opaque.data`. Of reasoning, `member` is where it was received, or
 * `details` and `chunk` are its `reasoning_details` and thinking chunk. Of a message, `chunks` is content that is more
 * than text, and `more` says that it continues a text that reasoning interrupted. `wireId` is a call's original id, and
 * `extra` has members beyond those of every message or call.
 */
type Kept = {
  member?: string;
  details?: JsonObject[];
  chunk?: JsonObject;
  chunks?: JsonObject[];
  refusal?: string;
  more?: true;
  wireId?: string;
  extra?: JsonObject;
};

/** Cached because items never change and every turn reads all of them again. */
const cache = new WeakMap<Opaque, Kept>();

export function keptBy(provider: string, opaque: Opaque | undefined): Kept {
  if (opaque?.provider !== provider) return {};
  const known = cache.get(opaque);
  if (known !== undefined) return known;
  const kept = readKept(objectOf(opaque.data));
  cache.set(opaque, kept);
  return kept;
}

function readKept({ member, details, chunk, chunks, refusal, more, wireId, extra }: JsonObject): Kept {
  return omitUndefined({
    member: nonEmpty(member),
    details: nonEmptyList(details),
    chunk: isJsonObject(chunk) ? chunk : undefined,
    chunks: nonEmptyList(chunks),
    refusal: nonEmpty(refusal),
    more: more === true ? more : undefined,
    wireId: nonEmpty(wireId),
    extra: isJsonObject(extra) ? extra : undefined,
  });
}

function nonEmptyList(value: JsonValue | undefined): JsonObject[] | undefined {
  const objects = objectsOf(value);
  return objects.length === 0 ? undefined : objects;
}
