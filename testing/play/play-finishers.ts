import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { AgentOptions } from '../../agent/agent-options.ts';
import type { RecordedEvent } from '../../engine/replay/record-run.ts';
import type { Finisher } from '../../protocol/finisher.ts';
import { FINISHER, type Stage } from './stage.ts';

const BAD_SCHEMA = /^The answer does not follow the schema: ([\s\S]*)\. Answer again\.$/;
const UNCHECKED = 'The answer could not be checked: ';

/** Returns one finisher and one output schema that repeat the recorded verdicts about each answer. */
export function playFinishers(
  stage: Stage,
  events: readonly RecordedEvent[],
): Pick<AgentOptions, 'finishers' | 'output'> {
  let current: RecordedEvent | undefined;
  const finisher: Finisher = async (_, { signal }) => {
    current = await stage.request(FINISHER, signal);
    if (current.type === 'finishers.completed')
      return current.text === undefined ? {} : { text: current.text };
    if (current.type !== 'finishers.rejected')
      throw new Error(`Expected an event of a finisher, got ${current.type}.`);
    return current.code === undefined ? { reject: current.feedback } : {};
  };
  const hasSchema = events.some(
    event =>
      (event.type === 'finishers.completed' && event.output !== undefined) ||
      (event.type === 'finishers.rejected' && event.code !== undefined),
  );
  if (!hasSchema) return { finishers: [finisher] };
  const schema: StandardSchemaV1 = {
    '~standard': { version: 1, vendor: 'agentchart', validate: () => judge(current) },
  };
  return { finishers: [finisher], output: { schema, jsonSchema: { type: 'object' } } };
}

function judge(event: RecordedEvent | undefined): StandardSchemaV1.Result<unknown> {
  if (event?.type === 'finishers.completed' && event.output !== undefined) return { value: event.output };
  const feedback = event?.type === 'finishers.rejected' ? event.feedback : '';
  const message = BAD_SCHEMA.exec(feedback)?.[1] ?? feedback.replace(UNCHECKED, '');
  return { issues: [{ message }] };
}
