import { messageOf } from '../../protocol/error.ts';
import type { Finisher } from '../definition.ts';
import { toolResults } from '../results.ts';
import type { Service } from '../service.ts';

/** Runs the finishers in order over the answer. One that throws sends the answer back: nothing passes unchecked. */
export function makeFinishers(finishers: readonly Finisher[]): Service {
  return async scope => {
    await scope.durable();
    const context = scope.context();
    const transcript = [...scope.inherited(), ...context.transcript];
    let text = context.answer?.text ?? '';
    for (const finish of finishers) {
      const input = { runId: context.runId, text, results: toolResults(context), transcript };
      try {
        const outcome = await finish(input, { signal: scope.signal });
        if (scope.signal.aborted) return;
        if (outcome === undefined) continue;
        if ('reject' in outcome)
          return void scope.report({ type: 'finishers.rejected', feedback: outcome.reject });
        text = outcome.text ?? text;
      } catch (error) {
        if (scope.signal.aborted) return;
        const feedback = `The answer could not be checked: ${messageOf(error)}`;
        return void scope.report({ type: 'finishers.rejected', feedback });
      }
    }
    scope.report({ type: 'finishers.completed', text });
  };
}
