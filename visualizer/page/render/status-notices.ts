import type { OpenCall, RunView } from '../runs-api.ts';

/** `run`: the run to go to. */
export type Notice = {
  tone: 'waits' | 'fails' | 'ends' | 'cuts';
  title: string;
  text: string;
  run?: string;
};

const INCOMPLETE: Readonly<Record<string, string>> = {
  length: 'The reply was cut off at its length limit. Allow more output tokens, or continue it in a new run.',
  content_filter: "The provider's content filter stopped the reply.",
  turns: 'The limit on turns was reached. Continue in a new run, or start with a higher limit.',
  toolCalls: 'The limit on tool calls was reached. Continue in a new run, or start with a higher limit.',
  tokens: 'The limit on tokens was reached. Continue in a new run, or start with a higher limit.',
  cost: 'The limit on cost was reached. Continue in a new run, or start with a higher limit.',
  activeMs: 'The limit on active time was reached. Continue in a new run, or start with a higher limit.',
  repeatedFailures:
    'The same call failed too often on the same input. Look at its error in the conversation.',
};

const FAILED: Readonly<Record<string, string>> = {
  authentication: "Check the provider's key where the server runs, and start a new run.",
  permission: 'The key may not use this model. Choose another model, or another key.',
  quota: 'The account has nothing left. Top it up, or name a second model for the run to fall back to.',
  'rate-limit':
    'The retries were spent. Try again later, or name a second model for the run to fall back to.',
  overloaded: 'The retries were spent. Try again later, or name a second model for the run to fall back to.',
  'context-too-long':
    'The transcript is longer than the model takes: trim it with prepareTurn, or choose a larger model.',
  'invalid-request': 'The provider refused the request: its message says what of it.',
  'script-exhausted': 'The scripted model has no more turns. Add one to its script.',
  'finishers-rejected':
    'The checks on the answer sent it back too often. Their feedback is in the conversation.',
  'output-invalid':
    "The answer did not follow the output's schema, three times. What was wrong is in the conversation.",
};

/** What there is to know of where the run stands, and what to do about it. */
export function statusNotices(view: RunView): Notice[] {
  const notices: Notice[] = [];
  const { settled } = view;
  const count = (status: string): number => view.calls.filter(call => call.status === status).length;
  if (view.status === 'waiting') {
    const say = (many: number, one: string, more: string): void => {
      if (many > 0) notices.push({ tone: 'waits', title: many === 1 ? one : `${many} ${more}`, text: '' });
    };
    say(count('doubted'), 'A call is in doubt', 'calls are in doubt');
    say(count('gated'), 'A call waits for your decision', 'calls wait for a decision');
    const results = view.calls.filter(call => call.status === 'waiting' && call.waitsFor === undefined);
    say(results.length, 'A call waits for its result', 'calls wait for their results');
    notices.push(...explainSubAgents(view));
    if (view.paused)
      notices.push({
        tone: settled?.reason === undefined ? 'cuts' : 'fails',
        title: 'Paused',
        text: settled?.reason ?? 'before the next action that spends',
      });
  }
  if (settled?.error !== undefined) {
    const { code, message } = settled.error;
    notices.push({
      tone: 'fails',
      title: `Failed: ${code}`,
      text: [message, FAILED[code] ?? ''].filter(Boolean).join(' '),
    });
  }
  if (settled?.incomplete !== undefined) {
    const { reason } = settled.incomplete;
    notices.push({
      tone: 'cuts',
      title: `The answer is incomplete: ${reason}`,
      text: INCOMPLETE[reason] ?? '',
    });
  }
  const unread = settled?.unread?.length ?? 0;
  if (unread > 0) {
    const title =
      unread === 1 ? 'A message came too late to be read' : `${unread} messages came too late to be read`;
    notices.push({ tone: 'cuts', title, text: 'Send it again in a new run that continues this one.' });
  }
  if (view.status === 'running' && view.driver === null) {
    notices.push({
      tone: 'cuts',
      title: 'Nobody drives this run',
      text: view.availableAgent ? 'Resume it to go on.' : '',
    });
  }
  if (!view.availableAgent) {
    const text = `Start the server with --agent and the module of "${view.agent}" to go on with it.`;
    notices.push({ tone: 'cuts', title: 'Its agent is not loaded here', text });
  }
  return notices;
}

/** What sub-agents wait for: one notice for each of their runs. */
function explainSubAgents({ runId, settled }: RunView): Notice[] {
  const theirs = (calls: readonly OpenCall[] = []): OpenCall[] =>
    calls.filter(call => call.runId !== runId && call.waitsFor === undefined);
  const open = [
    ...theirs(settled?.doubts).map(call => ({ ...call, needs: 'is in doubt' })),
    ...theirs(settled?.approvals).map(call => ({ ...call, needs: 'waits for your decision' })),
    ...theirs(settled?.results).map(call => ({ ...call, needs: 'waits for its result' })),
  ];
  return [...new Set(open.map(call => call.runId))].map(run => ({
    tone: 'waits',
    title: 'A sub-agent waits',
    text: open.flatMap(call => (call.runId === run ? [`${call.name} ${call.needs}`] : [])).join(', '),
    run,
  }));
}
