import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import type { ModelRequest, ModelTurn, TurnDelta, Usage } from '../../protocol/turn.ts';
import { malformedStream, type ProviderContext } from '../http/provider-errors.ts';
import { integerIn, mergeOptions, nonEmpty, objectOf, objectsOf, textIn } from '../turn/json-access.ts';
import { rawFinishReason, type TagPiece, TagScanner } from '../turn/raw-text.ts';
import type { AnswerReader } from '../turn/single-turn.ts';
import { toolCall } from '../turn/tool-calls.ts';
import { TurnBuilder } from '../turn/turn-builder.ts';
import { normalizeUsage } from '../turn/usage.ts';
import {
  keptOn,
  type Piece,
  STOP_TOKENS,
  TOKEN_IDS,
  TOKENS_BY_TEXT,
  type TokenName,
  tokenText,
} from './render.ts';

/**
 * vLLM removes special tokens unless `skip_special_tokens` is `false`. Without `max_tokens` it stops after 16; `null`
 * means as many as fit: https://docs.vllm.ai/en/stable/serving/openai_compatible_server.html.
 */
export function completionsBody(
  { settings, providerOptions }: ModelRequest,
  options: { model: string; prompt: string; stream: boolean; providerOptions: JsonObject | undefined },
): JsonObject {
  const { model, prompt, stream } = options;
  return mergeOptions(
    {
      model,
      prompt,
      max_tokens: settings.maxOutputTokens ?? null,
      ...omitUndefined({ temperature: settings.temperature, top_p: settings.topP }),
      stop: STOP_TOKENS.map(tokenText),
      stop_token_ids: STOP_TOKENS.map(name => TOKEN_IDS[name]),
      skip_special_tokens: false,
      spaces_between_special_tokens: false,
      stream,
      ...(stream ? { stream_options: { include_usage: true } } : {}),
    },
    mergeOptions(options.providerOptions ?? {}, providerOptions),
  );
}

/**
 * Reads a turn of `/v1/completions`. A body that is not streamed is like a stream with one event.
 *
 * T1 The turn has ended when the server has sent a finish reason. Usage may come behind it.
 * T2 Only the first of several choices is read.
 */
export class CompletionsTurn implements AnswerReader {
  readonly #reply = new HarmonyReply();
  readonly #scanner = new TagScanner([...TOKENS_BY_TEXT.keys()]);
  #finish = '';
  #usage: ModelTurn['usage'] = null;
  #model: string;
  readonly #request: ModelRequest;
  readonly #context: ProviderContext;

  constructor(request: ModelRequest, context: ProviderContext) {
    this.#request = request;
    this.#model = context.model;
    this.#context = context;
  }

  read(body: JsonObject): ModelTurn {
    this.push(body);
    if (this.progress === 'ended') return this.end();
    throw malformedStream('the response has no choice with a finish reason', this.#context, body);
  }

  push(event: JsonObject): TurnDelta[] {
    const choice = objectsOf(event.choices).find(({ index }) => (integerIn(index) ?? 0) === 0) ?? {};
    this.#finish = nonEmpty(choice.finish_reason) ?? this.#finish;
    this.#model = nonEmpty(event.model) ?? this.#model;
    const usage = objectOf(event.usage);
    this.#usage =
      normalizeUsage({
        input: usage.prompt_tokens,
        output: usage.completion_tokens,
        cachedInput: objectOf(usage.prompt_tokens_details).cached_tokens,
        reasoning: objectOf(usage.completion_tokens_details).reasoning_tokens,
      }) ?? this.#usage;
    return this.#scanner.push(textIn(choice.text)).flatMap(piece => this.#reply.push(pieceOf(piece)));
  }

  get progress(): 'open' | 'ended' {
    return this.#finish === '' ? 'open' : 'ended';
  }

  end(): ModelTurn {
    for (const piece of this.#scanner.end()) this.#reply.push(pieceOf(piece));
    this.#reply.end();
    if (this.#reply.lacksTokens) {
      throw malformedStream(
        'the reply has no special tokens, so its reasoning cannot be separated from its answer. The server must keep them when skip_special_tokens is false',
        this.#context,
      );
    }
    return this.#reply.turn(this.#request, { finish: this.#finish, usage: this.#usage, model: this.#model });
  }
}

export function pieceOf(piece: TagPiece): Piece {
  if ('text' in piece) return piece;
  const token = TOKENS_BY_TEXT.get(piece.tag);
  return token === undefined ? { text: piece.tag } : { token };
}

type Message = { kind: MessageKind; content: string[] };

/**
 * Reads a reply, piece by piece. It begins within the header of a message, because the prompt ends with
 * `<|start|>assistant`.
 *
 * R1 A header becomes a message at `<|message|>`. Text that no header follows is an answer without a header.
 * R2 `<|return|>` and `<|call|>` end the reply; everything behind them is ignored. A message with a recipient
 *    is a call whatever ends it.
 * R3 A token at an impossible place ends the current message instead of becoming text.
 */
export class HarmonyReply {
  readonly #messages: Message[] = [];
  #role: string[] = [];
  #channel: string[] = [];
  #part: 'role' | 'channel' | 'constraint' | 'content' = 'role';
  #isBegun = false;
  #hasTokens = false;
  #isOver = false;
  #calls = 0;

  push(piece: Piece): TurnDelta[] {
    if (this.#isOver) return [];
    return 'token' in piece ? this.#takeToken(piece.token) : this.#takeText(piece.text);
  }

  end(): TurnDelta[] {
    return this.#isOver ? [] : this.#endMessage();
  }

  /** Whether the server removed the special tokens, so that reasoning and answer cannot be told apart. */
  get lacksTokens(): boolean {
    const [first] = this.#messages;
    const channel = /^(?:analysis|commentary|final|assistant)/;
    return !this.#hasTokens && first !== undefined && channel.test(first.content.join('').trimStart());
  }

  turn(
    request: ModelRequest,
    { finish, usage, model }: { finish: string; usage: Usage | null; model: string },
  ): ModelTurn {
    const turn = new TurnBuilder(request);
    for (const { kind, content } of this.#messages) {
      const written = content.join('');
      if (kind.type === 'call') turn.addCall(toolCall(turn.nextCallId(), kind.name, written));
      else if (written === '') continue;
      else if (kind.type === 'reasoning') turn.addReasoning(written, keptOn('analysis'));
      else if (kind.type === 'text')
        turn.addText(written, kind.channel === 'commentary' ? keptOn('commentary') : undefined);
    }
    const finishReason = rawFinishReason(finish, { hasCalls: turn.toolCalls.length > 0 });
    return turn.turn({ finishReason, usage, model });
  }

  #takeText(text: string): TurnDelta[] {
    if (this.#part === 'role') this.#role.push(text);
    else if (this.#part === 'channel') this.#channel.push(text);
    else if (this.#part === 'content') return this.#extend(text);
    return [];
  }

  #takeToken(token: TokenName): TurnDelta[] {
    this.#hasTokens = true;
    switch (token) {
      case 'message':
        return this.#part === 'content'
          ? []
          : this.#begin(readHeader(this.#role.join(''), this.#channel.join('')));
      case 'constrain':
        if (this.#part !== 'content') this.#part = 'constraint';
        return [];
      case 'channel': {
        const deltas = this.#part === 'content' ? this.#endMessage() : [];
        // A second one in a header ends a word, as a space does.
        if (this.#channel.length > 0) this.#channel.push(' ');
        this.#part = 'channel';
        return deltas;
      }
      case 'start':
      case 'end': {
        const deltas = this.#endMessage();
        this.#isBegun = token === 'start';
        return deltas;
      }
      case 'return':
      case 'call': {
        const deltas = this.#endMessage();
        this.#isOver = true;
        return deltas;
      }
    }
  }

  #begin(kind: MessageKind): TurnDelta[] {
    this.#messages.push({ kind, content: [] });
    this.#part = 'content';
    return kind.type === 'call' ? [{ type: 'call_started', index: this.#calls++, name: kind.name }] : [];
  }

  #extend(text: string): TurnDelta[] {
    const message = this.#messages.at(-1);
    if (message === undefined || message.kind.type === 'ignored') return [];
    message.content.push(text);
    return message.kind.type === 'call'
      ? [{ type: 'call_arguments', index: this.#calls - 1, text }]
      : [{ type: message.kind.type, text }];
  }

  #endMessage(): TurnDelta[] {
    const stray = this.#part === 'role' && !this.#isBegun ? this.#role.join('') : '';
    const deltas = /^(?:to=|assistant\s+to=|assistant$|$)/.test(stray.trim())
      ? []
      : [...this.#begin({ type: 'text', channel: 'final' }), ...this.#extend(stray)];
    this.#role = [];
    this.#channel = [];
    this.#part = 'role';
    this.#isBegun = false;
    return deltas;
  }
}

/** What a message of a reply is, according to its header. Messages of other roles are `ignored`. */
type MessageKind =
  | { type: 'reasoning' | 'ignored' }
  | { type: 'text'; channel: string }
  | { type: 'call'; name: string };

const NOBODY: ReadonlySet<string> = new Set(['', 'all', 'assistant', 'user']);

/**
 * `role` is before `<|channel|>`, `channel` behind it, both without `<|constrain|>` and the rest. The recipient is in
 * either, with or without `to=` and `functions.`. No channel means for the reader; an unknown one does not.
 */
function readHeader(role: string, channel: string): MessageKind {
  const [author = 'assistant'] = wordsOf(role).filter(word => !word.startsWith('to='));
  if (author !== 'assistant') return { type: 'ignored' };
  const recipient = recipientIn(role) || recipientIn(channel);
  if (!NOBODY.has(recipient)) return { type: 'call', name: recipient.replace(/^functions\./, '') };
  const [name = 'final'] = wordsOf(channel);
  return name === 'final' || name === 'commentary' ? { type: 'text', channel: name } : { type: 'reasoning' };
}

function recipientIn(text: string): string {
  const word = wordsOf(text).find(candidate => /^(?:to=|functions\.)/.test(candidate)) ?? '';
  return word.replace(/^to=/, '');
}

function wordsOf(text: string): string[] {
  return text.split(/\s+/).filter(word => word !== '');
}
