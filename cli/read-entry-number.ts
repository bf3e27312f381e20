import { EngineError } from '../protocol/error.ts';

/** The number of an entry, as an option gives it. Throws `input-invalid` for what is no whole number. */
export function readEntryNumber(option: string, text: string): number {
  if (/^-?\d+$/.test(text)) return Number(text);
  throw new EngineError(
    'input-invalid',
    `${option} takes the number of an entry, and ${JSON.stringify(text)} is none. \`agentchart show RUN --events\` lists them.`,
  );
}
