import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { nonEmpty, objectsOf } from '../turn/json-access.ts';
import { PartialArguments } from './partial-arguments.ts';

/** Collects one call of the model while its parts arrive. */
export class CallReader {
  /** The position among the turn's calls. */
  readonly index: number;
  readonly name: string;
  id: string | undefined;
  thoughtSignature: string | undefined;
  #pieces: PartialArguments | undefined;
  #args: JsonValue | undefined;

  constructor(index: number, name: string) {
    this.index = index;
    this.name = name;
  }

  /** Adds a part of the call. */
  push(part: JsonObject, { id, args, partialArgs }: JsonObject): void {
    this.id ??= nonEmpty(id);
    this.thoughtSignature ??= nonEmpty(part.thoughtSignature);
    for (const piece of objectsOf(partialArgs)) this.#partial().push(piece);
    if (this.#pieces && isJsonObject(args)) this.#pieces.add(args);
    else this.#args = args ?? this.#args;
  }

  /**
   * Returns the arguments as JSON text. Text that the model sent instead of an object is returned unchanged.
   */
  arguments(): string {
    if (this.#pieces) return this.#pieces.text();
    const text = typeof this.#args === 'string' ? this.#args : JSON.stringify(this.#args ?? {});
    return text.trim() === '' ? '{}' : text;
  }

  #partial(): PartialArguments {
    if (!this.#pieces) {
      this.#pieces = new PartialArguments();
      if (isJsonObject(this.#args)) this.#pieces.add(this.#args);
    }
    return this.#pieces;
  }
}
