import type { JsonObject } from '../../protocol/json.ts';
import { integerIn, jsonIn, nonEmpty, objectOf, textIn } from '../turn/json-access.ts';
import type { ReadBlock } from './turn.ts';

/** One content block while it is streamed. */
export type StreamedBlock = {
  index: number;
  block: JsonObject;
  /** The pieces of its `input`. */
  pieces: string[];
  ended: boolean;
  /** Of the turn's calls; `undefined` for everything that is not one. */
  callIndex: number | undefined;
};

/**
 * The content blocks of a streamed message.
 *
 * B1 An event belongs to the latest block begun at its index; without one, to the block touched last.
 *    Blocks may be interleaved.
 * B2 A block with an id that has come before is the one that came; so is one without an id that begins
 *    again while it is open. After its end, or with another type, it is a new one.
 * B3 Nothing of an input is parsed before the message has ended. Pieces go before the input a block began with.
 */
export class StreamedBlocks {
  readonly #blocks: StreamedBlock[] = [];
  readonly #latest = new Map<number, StreamedBlock>();
  readonly #ids = new Set<string>();
  #last: StreamedBlock | undefined;

  /** The block that begins; `undefined` if it had begun before. */
  begin(event: JsonObject, block: JsonObject): StreamedBlock | undefined {
    const known = this.at(event);
    const again = known && !known.ended && known.block.type === block.type && known.block.id === block.id;
    const id = nonEmpty(block.id);
    if (again || (id !== undefined && this.#ids.has(id))) return undefined;
    if (id !== undefined) this.#ids.add(id);
    const index = integerIn(event.index) ?? this.#blocks.length;
    const streamed: StreamedBlock = {
      index,
      block: { ...block },
      pieces: [],
      ended: false,
      callIndex: undefined,
    };
    this.#blocks.push(streamed);
    this.#latest.set(index, streamed);
    this.#last = streamed;
    return streamed;
  }

  /** The block an event is about. */
  at(event: JsonObject): StreamedBlock | undefined {
    const index = integerIn(event.index);
    const found = index === undefined ? this.#last : this.#latest.get(index);
    if (found) this.#last = found;
    return found;
  }

  /** The blocks in the message's order, put together. */
  content(): ReadBlock[] {
    return this.#blocks.toSorted((a, b) => a.index - b.index).map(assembled);
  }
}

/** Adds what a `content_block_delta` brings. Deltas of unknown types set the members they have. */
export function extend(streamed: StreamedBlock, delta: JsonObject): void {
  const { block, pieces } = streamed;
  switch (delta.type) {
    case 'text_delta':
      block.text = textIn(block.text) + textIn(delta.text);
      return;
    case 'thinking_delta':
      block.thinking = textIn(block.thinking) + textIn(delta.thinking);
      return;
    case 'input_json_delta':
      pieces.push(textIn(delta.partial_json));
      return;
    case 'citations_delta':
      if (delta.citation === undefined) return;
      if (Array.isArray(block.citations)) block.citations.push(delta.citation);
      else block.citations = [delta.citation];
      return;
    default: {
      const { type: _, ...members } = delta;
      Object.assign(block, members);
    }
  }
}

function assembled({ block, pieces }: StreamedBlock): ReadBlock {
  const written = pieces.join('');
  if (written === '') return { block, written };
  return { block: { ...block, input: jsonIn(written) ?? objectOf(block.input) }, written };
}
