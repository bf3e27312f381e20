import type { Source } from '../data/source.ts';
/** One run. */
export function RunView({ runId }: { source: Source; runId: string }) {
  return <main>{runId}</main>;
}
