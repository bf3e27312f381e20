import type { CallToolResult } from '@modelcontextprotocol/server';
import { isJsonObject, omitUndefined } from '../../protocol/json.ts';
import type { Settled } from '../../protocol/run-view.ts';
import { cutText, fitsBytes } from '../../text/cut-text.ts';
import { describeOpenCalls } from '../served/open-calls.ts';

/** The largest answer of a tool, in bytes of UTF-8. The full one is in the run. */
const MOST_BYTES = 1024 * 1024;

const RUN_KEY = 'agentchart/runId';

/** With `hasSchema`, clients take a result without `structuredContent` for an error. */
export function resultOf(
  runId: string,
  settled: Settled,
  { hasSchema, notes = [] }: { hasSchema: boolean; notes?: readonly string[] },
): CallToolResult {
  const say = (text: string, { isError = false } = {}): CallToolResult => ({
    content: [text, ...notes].map(each => ({ type: 'text', text: cutText(each, MOST_BYTES) })),
    _meta: { [RUN_KEY]: runId },
    ...(isError && { isError }),
  });
  switch (settled.status) {
    case 'finished': {
      const { output, incomplete, text } = settled;
      const { reason, refusal } = incomplete ?? {};
      const said = refusal === undefined ? '' : `\n\n[The model refused: ${refusal}]`;
      const why = reason === undefined ? '' : `${said}\n\n[The answer is incomplete: ${reason}]`;
      if (!hasSchema) return say(text + why);
      const json = JSON.stringify(output);
      if (!isJsonObject(output) || !fitsBytes(json, MOST_BYTES))
        return say(
          isJsonObject(output)
            ? `The output is larger than ${MOST_BYTES} bytes. Run ${runId} has it.`
            : `${text}${why}\n\n[The answer does not follow the output schema. Run ${runId}]`,
          { isError: true },
        );
      return { ...say(json), ...omitUndefined({ structuredContent: output }) };
    }
    case 'waiting':
      return say(describeOpenCalls(runId, settled), { isError: hasSchema });
    case 'failed':
      return say(`Run ${runId} failed: ${settled.error.message} (${settled.error.code})`, { isError: true });
    case 'cancelled':
      return say(`Run ${runId} was cancelled.`, { isError: true });
  }
}
