import type { Item } from '../../protocol/item.ts';
import type { ModelRequest, ModelTurn, ToolCall, TurnDelta, Usage } from '../../protocol/turn.ts';
import { rawFinishReason } from '../raw/raw-finish-reason.ts';
import { CallIds } from '../turn/call-ids.ts';
import { toolCall } from '../turn/tool-call.ts';
import { type MessageKind, readHeader } from './header.ts';
import { keptOn } from './opaque-data.ts';
import type { Piece, TokenName } from './tokens.ts';

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

  /** Adds a piece. Returns the deltas to show to a reader of the stream. */
  push(piece: Piece): TurnDelta[] {
    if (this.#isOver) return [];
    return 'token' in piece ? this.#takeToken(piece.token) : this.#takeText(piece.text);
  }

  /** Ends the reply. Returns the deltas of an answer without a header. */
  end(): TurnDelta[] {
    return this.#isOver ? [] : this.#endMessage();
  }

  /** Whether the server removed the special tokens, so that reasoning and answer cannot be told apart. */
  get lacksTokens(): boolean {
    const [first] = this.#messages;
    const channel = /^(?:analysis|commentary|final|assistant)/;
    return !this.#hasTokens && first !== undefined && channel.test(first.content.join('').trimStart());
  }

  /** Returns the completed turn. `finish` is the server's finish reason. */
  turn(
    request: ModelRequest,
    { finish, usage, model }: { finish: string; usage: Usage | null; model: string },
  ): ModelTurn {
    const ids = new CallIds(request.transcript);
    const items: Item[] = [];
    const toolCalls: ToolCall[] = [];
    const text: string[] = [];
    const reasoning: string[] = [];
    for (const { kind, content } of this.#messages) {
      const written = content.join('');
      if (kind.type === 'call') {
        const call = toolCall(ids.name(null, toolCalls.length), kind.name, written);
        toolCalls.push(call);
        items.push({ type: 'tool_call', callId: call.callId, name: call.name, arguments: call.arguments });
      } else if (written !== '' && kind.type === 'reasoning') {
        reasoning.push(written);
        items.push({ type: 'reasoning', text: written, opaque: keptOn('analysis') });
      } else if (written !== '' && kind.type === 'text') {
        text.push(written);
        items.push({
          type: 'message',
          role: 'assistant',
          content: [{ type: 'text', text: written }],
          ...(kind.channel === 'commentary' ? { opaque: keptOn('commentary') } : {}),
        });
      }
    }
    const finishReason = rawFinishReason(finish, { hasCalls: toolCalls.length > 0 });
    return {
      text: text.join(''),
      reasoning: reasoning.join(''),
      toolCalls,
      finishReason,
      usage,
      model,
      items,
    };
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
