import { expect } from 'vitest';
import * as z from 'zod';
import { ProviderError } from '../../../protocol/error.ts';
import { itemSchema } from '../../../protocol/item.ts';
import { type ModelTurn, type TurnDelta, usageSchema } from '../../../protocol/turn.ts';

export function turnIn(deltas: readonly TurnDelta[]): ModelTurn {
  const turns = deltas.flatMap(delta => (delta.type === 'turn' ? [delta.turn] : []));
  const [turn] = turns;
  if (turn === undefined || turns.length > 1) throw new Error(`Expected one turn, got ${turns.length}.`);
  return turn;
}

/** `null` for an error that reports the provider's response; any other error is a defect. */
export async function turnOrError(turn: Promise<ModelTurn>): Promise<ModelTurn | null> {
  try {
    return await turn;
  } catch (error) {
    expect(error).toBeInstanceOf(ProviderError);
    expect(String(error)).not.toContain('the request could not be made');
    return null;
  }
}

/** The properties of every turn, whatever it was decoded from. */
export function expectSound(turn: ModelTurn): void {
  expect(z.array(itemSchema).safeParse(turn.items).success).toBe(true);
  expect(z.nullable(usageSchema).safeParse(turn.usage).success).toBe(true);
  const ids = turn.toolCalls.map(call => call.callId);
  expect(new Set(ids).size).toBe(ids.length);
  for (const call of turn.toolCalls) {
    expect(call.callId).not.toBe('');
    expect(call.input === undefined).toBe(call.error !== undefined);
  }
}

/** A sound turn in which the name of every call comes from these bytes, or from the texts in them that are one reply. */
export function expectReadFrom(bytes: Uint8Array, turn: ModelTurn): void {
  expectSound(turn);
  const text = new TextDecoder().decode(bytes);
  const places = [text, repliedText(text)];
  for (const { name } of turn.toolCalls) {
    const written = [name, JSON.stringify(name).slice(1, -1)];
    const found = places.some(place => written.some(form => place.includes(form)));
    expect(found, JSON.stringify({ name, places })).toBe(true);
  }
}

/** The reply of a completion, whose chunks may divide the name of a call: the `text` of each chunk, joined. */
function repliedText(body: string): string {
  const texts = body.split('\n').map(line => {
    try {
      const parsed = chunkSchema.safeParse(JSON.parse(line.replace(/^data: ?/, '')));
      return parsed.data?.choices[0]?.text ?? '';
    } catch {
      return '';
    }
  });
  return texts.join('');
}

const chunkSchema = z.object({ choices: z.array(z.object({ text: z.string() })) });
