import { InheritedTranscripts } from '../../../engine/journal/load-history.ts';
import type { Item } from '../../../protocol/item.ts';
import { toJson } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import type { FoundResponse } from '../response-library.ts';
import type { Plan } from './plan.ts';
import { stateAt } from './plan-request.ts';

/** The transcript that the model would read first if the plan were carried out, without the results of tool calls. */
export async function transcriptFor(plan: Plan, store: Store): Promise<Item[]> {
  const histories = new InheritedTranscripts(store);
  if (plan.type === 'start') return [...(await histories.load(plan.continues?.runId ?? null)), ...plan.items];
  const run = plan.type === 'repeat' ? plan.found.run : plan.run;
  const inherited = await histories.load(run.state.context.continues);
  if (plan.type === 'repeat') return [...inherited, ...run.state.context.transcript];
  const { forkAt, callAnswers, messages } = plan;
  const { context } = forkAt === undefined ? run.state : stateAt(run, { to: forkAt });
  const results = callAnswers.flatMap(({ open: { callId }, answer }): Item[] =>
    answer.type === 'result'
      ? [{ type: 'tool_result', callId, output: toJson(answer.output), isError: false }]
      : [],
  );
  return [...inherited, ...context.transcript, ...results, ...messages];
}

/** The transcript at the end of a response: that of its run, after the runs it continues. */
export async function transcriptUpTo({ run, span }: FoundResponse, store: Store): Promise<Item[]> {
  const { transcript, calls, continues } = stateAt(run, span).context;
  const answered = new Set(transcript.flatMap(item => (item.type === 'tool_result' ? [item.callId] : [])));
  const results = calls.flatMap(({ callId, result }): Item[] =>
    result === undefined || answered.has(callId) ? [] : [{ type: 'tool_result', callId, ...result }],
  );
  return [...(await new InheritedTranscripts(store).load(continues)), ...transcript, ...results];
}
