import type { JsonObject } from '../../protocol/json.ts';
import { integerIn, jsonIn, nonEmpty, objectOf, textIn } from '../turn/json-access.ts';
import type { ReadBlock } from './turn.ts';

/** One content block during streaming. */
export type StreamedBlock = {
  index: number;
  block: JsonObject;
  /** The pieces of the block's `input`. */
  pieces: string[];
  ended: boolean;
  /** The position among the turn's calls; `undefined` for other blocks. */
  callIndex: number | undefined;
};

/**
 * Collects the content blocks of a streamed message.
 *
 * B1 An event belongs to the latest block with its index; without an index, to the block of the previous
 *    event. Blocks may be interleaved.
 * B2 A block with a known id is a repetition; so is a block without an id that starts again while it is open.
 *    A block that starts after the end of the open one, or with another type, is a new block.
 * B3 Inputs are parsed only after the message has ended. Streamed pieces replace the initial input.
 */
export class StreamedBlocks {
  readonly #blocks: StreamedBlock[] = [];
  readonly #latest = new Map<number, StreamedBlock>();
  readonly #ids = new Set<string>();
  #last: StreamedBlock | undefined;

  /** Opens a block; `undefined` if it is a repetition. */
  begin(event: JsonObject, block: JsonObject): StreamedBlock | undefined {
    const known = this.at(event);
    const isRepeated =
      known && !known.ended && known.block.type === block.type && known.block.id === block.id;
    const id = nonEmpty(block.id);
    if (isRepeated || (id !== undefined && this.#ids.has(id))) return undefined;
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

  /** Returns the block that an event belongs to. */
  at(event: JsonObject): StreamedBlock | undefined {
    const index = integerIn(event.index);
    const found = index === undefined ? this.#last : this.#latest.get(index);
    if (found) this.#last = found;
    return found;
  }

  /** Returns the assembled blocks in the message's order. */
  content(): ReadBlock[] {
    return this.#blocks.toSorted((a, b) => a.index - b.index).map(assembled);
  }
}

/** Applies a `content_block_delta`. A delta of an unknown type sets its members on the block. */
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
