import { useSignal } from '@preact/signals';
import { formatDuration } from '../../../protocol/listing/format-duration.ts';
import { isOpenItem } from '../../../protocol/run-view.ts';
import { later } from '../app/later.tsx';
import { type InboxItem, type JsonOpenItem, runPath } from '../data/request.ts';
import { sendCommand } from '../data/send-command.ts';
import { subjectOf } from '../model/subject-of.ts';
import { formatMoment, joinFacts, showSafe } from '../render/format.ts';
import { DecisionForms, WhoMayDecide } from '../run/decisions/decision-forms.tsx';
import { type Act, ActContext, decisionKeyOf } from '../run/decisions/open-decisions.tsx';
import { SeenBox, seenPart } from '../ui/scrolling.tsx';
import { ProblemText, Safe } from '../ui/text.tsx';
import { ReadableValue } from '../ui/value.tsx';
import { Beside } from './beside.tsx';
import { inboxKeyOf, KINDS, nameOf } from './inbox-rows.ts';
import { WhyInDoubt } from './why-in-doubt.tsx';

const SignInBar = later(async () => (await import('../app/more-parts.ts')).SignInBar);

/** Another one if what is decided is another. */
export function decisionKeyIn({ call }: InboxItem): string {
  return isOpenItem(call) ? decisionKeyOf(call) : call.id;
}

type DecisionProps = { item: InboxItem; isGone: boolean; onTaken(message: string): Promise<void> };

export function Decision({ item, isGone, onTaken }: DecisionProps) {
  const { kind, call, title, agent, since, rootId, runId } = item;
  const name = nameOf(call);
  const facts = joinFacts(
    showSafe(agent),
    `waits since ${formatMoment(since)}`,
    isOpenItem(call) &&
      call.expiresAt !== undefined &&
      `expires in ${formatDuration(Math.max(0, call.expiresAt - Date.now()))}`,
  );
  return (
    <article class="decision" aria-label={`${KINDS[kind]}: ${showSafe(name)}`}>
      <header>
        <h2>
          <Safe text={name} class="mono" />
        </h2>
        <Safe in="p" text={title || agent} />
        <p class="muted">
          <a href={runPath(runId)}>Open the run</a>
          {rootId !== runId && (
            <>
              {' · '}
              <a href={runPath(rootId)}>Its parent</a>
            </>
          )}
          {' · '}
          <Safe text={facts} />
        </p>
      </header>
      <div class="inbox-body">
        {isOpenItem(call) ? <What call={call} item={item} /> : <Safe in="p" text={call.reason} />}
      </div>
      <footer>
        {isGone ? (
          <p role="status">This was resolved. The list shows what is left once the pointer leaves it.</p>
        ) : (
          <Forms call={call} id={inboxKeyOf(item)} runId={runId} onTaken={onTaken} />
        )}
      </footer>
    </article>
  );
}

function What({ call, item }: { call: JsonOpenItem; item: InboxItem }) {
  const { name, value, label } = subjectOf(call);
  return (
    <>
      {call.reason !== undefined && <Safe in="p" class="reason" text={call.reason} />}
      {call.kind === 'doubt' && <WhyInDoubt runId={call.runId} callId={call.callId} />}
      {'sideEffect' in call && call.sideEffect === 'once' && (
        <p class="muted">This call must not run twice.</p>
      )}
      <h3>{label}</h3>
      <SeenBox id={inboxKeyOf(item)} label={`${label} of ${showSafe(name)}`}>
        <ReadableValue value={value} path={label.toLowerCase()} />
      </SeenBox>
      <Beside item={item} />
    </>
  );
}

const DONE: Readonly<Record<string, string>> = {
  approve: 'Approved',
  reject: 'Rejected',
  answer: 'Answered',
  resolve: 'Resolved',
};

type FormsProps = Pick<DecisionProps, 'onTaken'> & {
  call: InboxItem['call'];
  id: string;
  runId: string;
};

function Forms({ call, id, runId, onTaken }: FormsProps) {
  const problem = useSignal('');
  const act: Act = async ({ type, runId: run = runId, ...body }) => {
    problem.value = '';
    const onLost = (message: string) => (problem.value = message);
    const outcome = await sendCommand(type, body, { runId: run, after: 0, onLost });
    const done = call.kind === 'review' && type === 'reject' ? 'Sent back' : (DONE[type] ?? type);
    if (outcome.type === 'taken') await onTaken(outcome.message ?? `${done}: ${nameOf(call)}.`);
    else problem.value = outcome.message;
    return outcome.type === 'taken' ? null : outcome.message;
  };
  if (!isOpenItem(call)) return <SignInBar open={[call]} />;
  return (
    <>
      <ProblemText text={problem.value} />
      <WhoMayDecide call={call} />
      <ActContext.Provider value={act}>
        <DecisionForms call={call} unseen={seenPart(id).value < 1} isKeyed />
      </ActContext.Provider>
    </>
  );
}
