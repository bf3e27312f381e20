import { isJsonObject, isTooDeep, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import type { ModelRequest, ModelTurn, TurnDelta, Usage } from '../../protocol/turn.ts';
import { rawFinishReason, TagScanner } from '../turn/raw-text.ts';
import { toolCall } from '../turn/tool-calls.ts';
import { TurnBuilder } from '../turn/turn-builder.ts';
import { REASONING_MEMBER, VLLM } from './render.ts';

type Part = { type: 'text' | 'reasoning'; content: string[] } | { type: 'call'; call: TaggedCall };

/** The tags of a reply. Tags that the model does not use are text. */
type ReplyTags = { think: boolean; calls: boolean; startsInThink: boolean };

/**
 * Reads a reply whose reasoning is in `<think>` and whose calls are in `<tool_call>`.
 *
 * P1 Whitespace at the ends of a part belongs to the tags and is left out.
 * P2 A call is shown once it is complete. One that the reply ends in counts too.
 */
export class TaggedReply {
  readonly #scanner: TagScanner;
  readonly #parts: Part[] = [];
  #mode: 'text' | 'reasoning' | 'call';
  /** The part that is being written; `undefined` until it has text. */
  #open: string[] | undefined;
  #spaces: string[] = [];
  #call: string[] = [];
  #calls = 0;

  constructor({ think, calls, startsInThink }: ReplyTags) {
    this.#scanner = new TagScanner([
      ...(think ? ['<think>', '</think>'] : []),
      ...(calls ? ['<tool_call>', '</tool_call>'] : []),
    ]);
    this.#mode = startsInThink ? 'reasoning' : 'text';
  }

  push(text: string): TurnDelta[] {
    return this.#scanner.push(text).flatMap(piece => this.#take(piece));
  }

  end(
    request: ModelRequest,
    { finish, usage, model }: { finish: string; usage: Usage | null; model: string },
  ): ModelTurn {
    for (const piece of this.#scanner.end()) this.#take(piece);
    this.#switchTo('text');
    const turn = new TurnBuilder(request);
    for (const part of this.#parts) {
      if (part.type === 'call')
        turn.addCall(toolCall(turn.nextCallId(), part.call.name, part.call.arguments));
      else if (part.type === 'text') turn.addText(part.content.join(''));
      else turn.addReasoning(part.content.join(''), { provider: VLLM, data: { member: REASONING_MEMBER } });
    }
    const finishReason = rawFinishReason(finish, { hasCalls: turn.toolCalls.length > 0 });
    return turn.turn({ finishReason, usage, model });
  }

  #take(piece: { text: string } | { tag: string }): TurnDelta[] {
    if ('text' in piece) return this.#extend(piece.text);
    switch (piece.tag) {
      case '<think>':
        return this.#switchTo('reasoning');
      case '<tool_call>':
        return this.#switchTo('call');
      default:
        return this.#switchTo('text');
    }
  }

  #switchTo(mode: 'text' | 'reasoning' | 'call'): TurnDelta[] {
    const deltas = this.#mode === 'call' ? this.#endCall() : [];
    this.#mode = mode;
    this.#open = undefined;
    this.#spaces = [];
    return deltas;
  }

  #extend(text: string): TurnDelta[] {
    if (this.#mode === 'call') {
      this.#call.push(text);
      return [];
    }
    const type = this.#mode;
    const shown = this.#withoutSpaces(text);
    if (shown === '') return [];
    if (this.#open === undefined) {
      this.#open = [];
      this.#parts.push({ type, content: this.#open });
    }
    this.#open.push(shown);
    return [{ type, text: shown }];
  }

  /** Holds whitespace back until text follows it. */
  #withoutSpaces(text: string): string {
    const body = text.trimEnd();
    const rest = text.slice(body.length);
    if (body === '') {
      if (this.#open !== undefined) this.#spaces.push(rest);
      return '';
    }
    const shown = this.#open === undefined ? body.trimStart() : this.#spaces.join('') + body;
    this.#spaces = [rest];
    return shown;
  }

  #endCall(): TurnDelta[] {
    const written = this.#call.join('');
    this.#call = [];
    if (written.trim() === '') return [];
    const call = readTaggedCall(written);
    this.#parts.push({ type: 'call', call });
    const index = this.#calls++;
    return [
      { type: 'call_started', index, name: call.name },
      ...(call.arguments === '' ? [] : [{ type: 'call_arguments', index, text: call.arguments } as const]),
    ];
  }
}

/** A call as the model wrote it. `arguments` is text that may be invalid JSON. */
type TaggedCall = { name: string; arguments: string };

/** Reads the content of `<tool_call>`; anything but an object with `name` becomes arguments, for an error to quote. */
export function readTaggedCall(text: string): TaggedCall {
  const call = isTooDeep(text) ? undefined : objectIn(text);
  if (typeof call?.name === 'string') {
    const { name, arguments: input = call.parameters ?? {} } = call;
    return { name, arguments: typeof input === 'string' ? input : JSON.stringify(input) };
  }
  const name = /"name"\s*:\s*"([^"\\]*)"/.exec(text)?.[1] ?? 'unknown';
  const at = text.indexOf('"arguments"');
  return {
    name,
    arguments:
      at === -1
        ? text.trim()
        : text
            .slice(at + '"arguments"'.length)
            .replace(/^\s*:/, '')
            .trim(),
  };
}

function objectIn(text: string): JsonObject | undefined {
  try {
    const value: JsonValue = JSON.parse(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
