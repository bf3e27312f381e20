import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { nonEmpty, objectsOf } from '../turn/json-access.ts';
import { PartialArguments } from './partial-arguments.ts';

/** A call of the model while its parts come. */
export class CallReader {
  /** Of the turn's calls. */
  readonly index: number;
  readonly name: string;
  id: string | undefined;
  thoughtSignature: string | undefined;
  #pieces: PartialArguments | undefined;
  #whole: JsonValue | undefined;

  constructor(index: number, name: string) {
    this.index = index;
    this.name = name;
  }

  push(part: JsonObject, { id, args, partialArgs }: JsonObject): void {
    this.id ??= nonEmpty(id);
    this.thoughtSignature ??= nonEmpty(part.thoughtSignature);
    for (const piece of objectsOf(partialArgs)) this.#partial().push(piece);
    if (this.#pieces && isJsonObject(args)) this.#pieces.add(args);
    else this.#whole = args ?? this.#whole;
  }

  /** As JSON text; what the model gave instead of an object is given as it is. */
  arguments(): string {
    if (this.#pieces) return this.#pieces.text();
    const text = typeof this.#whole === 'string' ? this.#whole : JSON.stringify(this.#whole ?? {});
    return text.trim() === '' ? '{}' : text;
  }

  #partial(): PartialArguments {
    if (!this.#pieces) {
      this.#pieces = new PartialArguments();
      if (isJsonObject(this.#whole)) this.#pieces.add(this.#whole);
    }
    return this.#pieces;
  }
}
