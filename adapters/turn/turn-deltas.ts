import type { Item } from '../../protocol/item.ts';
import { refusalOf, textOf } from '../../protocol/message.ts';
import type { ModelTurn, TurnDelta } from '../../protocol/turn.ts';

export class ShownDeltas {
  text = '';
  reasoning = '';
  calls: { name: string; arguments: string }[] = [];

  record(delta: TurnDelta): void {
    switch (delta.type) {
      case 'text':
        this.text += delta.text;
        return;
      case 'reasoning':
        this.reasoning += delta.text;
        return;
      case 'call_started':
        this.calls[delta.index] = { name: delta.name, arguments: '' };
        return;
      case 'call_arguments': {
        const call = this.calls[delta.index];
        if (call) call.arguments += delta.text;
        return;
      }
      case 'reasoning_ended':
      case 'turn':
        return;
    }
  }
}

/** Yields the deltas that are missing between `shown` and the complete turn, and finally the turn itself. */
export function* deltasUpTo(turn: ModelTurn, shown = new ShownDeltas()): Generator<TurnDelta, void> {
  const reasoning = restOf(turn.reasoning, shown.reasoning);
  if (reasoning !== '') yield { type: 'reasoning', text: reasoning };
  const text = restOf(turn.text, shown.text);
  if (text !== '') yield* textDeltas(turn, text);
  for (const [index, call] of turn.toolCalls.entries()) {
    const known = shown.calls[index];
    if (!known) yield { type: 'call_started', index, name: call.name, callId: call.callId };
    const rest = restOf(call.arguments, known?.arguments ?? '');
    if (rest !== '') yield { type: 'call_arguments', index, text: rest };
  }
  yield { type: 'turn', turn };
}

/** Yields the text that is missing; the texts before and after a refusal, or reasoning without text, are apart. */
function* textDeltas({ text, items }: ModelTurn, missing: string): Generator<TurnDelta, void> {
  const isWhole = items.map(textOf).join('') === text;
  const isSkipped = (item: Item) => refusalOf(item) !== '' || isTextless(item);
  if (!isWhole || !items.some(isSkipped)) return yield { type: 'text', text: missing };
  let known = text.length - missing.length;
  let refusals = 0;
  let sealed: number[] = [];
  for (const item of items) {
    if (isTextless(item)) sealed = [...sealed, refusals];
    const own = textOf(item);
    const rest = own.slice(known);
    known = Math.max(0, known - own.length);
    const skipped = { ...(refusals > 0 && { refusals }), ...(sealed.length > 0 && { sealed }) };
    if (rest !== '') yield { type: 'text', text: rest, ...skipped };
    if (refusalOf(item) !== '') refusals += 1;
  }
}

function isTextless(item: Item): boolean {
  return item.type === 'reasoning' && item.text === '' && item.opaque !== undefined;
}

function restOf(full: string, shown: string): string {
  return full.startsWith(shown) ? full.slice(shown.length) : '';
}

export function callStarted(
  index: number,
  name: string,
  callId: string,
): Extract<TurnDelta, { type: 'call_started' }> {
  return { type: 'call_started', index, name, ...(callId !== '' && { callId }) };
}
