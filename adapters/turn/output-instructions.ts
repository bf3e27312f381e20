import type { OutputFormat } from '../../protocol/turn.ts';

/** The instructions with the schema of the answer in words, for providers that cannot be held to a schema. */
export function withOutputSchema(instructions: string | undefined, { schema }: OutputFormat): string {
  const asked = `Answer with nothing but one JSON value that follows this JSON Schema:\n${JSON.stringify(schema)}`;
  return instructions === undefined ? asked : `${instructions}\n\n${asked}`;
}
