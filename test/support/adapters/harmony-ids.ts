import { decode, encode } from 'gpt-tokenizer/encoding/o200k_harmony';

/** The special tokens of the published format's document. */
const IDS: Readonly<Record<string, number>> = {
  '<|return|>': 200002,
  '<|constrain|>': 200003,
  '<|channel|>': 200005,
  '<|start|>': 200006,
  '<|end|>': 200007,
  '<|message|>': 200008,
  '<|call|>': 200012,
};

/** Encodes a text in which every `<|…|>` of the format is a special token. */
export function idsOf(text: string): number[] {
  return text
    .split(/(<\|[a-z]+\|>)/)
    .flatMap(part => IDS[part] ?? encode(part, { disallowedSpecial: new Set() }));
}

/** Decodes ids to what the model reads. Special tokens are only those ids, whatever the text says. */
export function textOfIds(ids: readonly number[]): string {
  const names = new Map(Object.entries(IDS).map(([name, id]) => [id, name]));
  let text = '';
  let plain: number[] = [];
  const flush = () => {
    text += decode(plain).replace(/<\|(?=\w+\|>)/g, '<¦');
    plain = [];
  };
  for (const id of ids) {
    const name = names.get(id);
    if (name === undefined) plain.push(id);
    else {
      flush();
      text += name;
    }
  }
  flush();
  return text;
}
