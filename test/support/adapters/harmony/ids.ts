import { decode, encode } from 'gpt-tokenizer/encoding/o200k_harmony';

/** The special tokens in the document of the published format. */
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

/** Decodes ids to the text that the model reads. Special tokens come only from their ids, never from text. */
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
