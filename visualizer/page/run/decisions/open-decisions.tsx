import { signal } from '@preact/signals';
import { createContext } from 'preact';
import { useContext, useEffect, useRef } from 'preact/hooks';
import type { JsonValue } from '../../../../protocol/json.ts';
import type { AnswerCommand, DecisionAnswer } from '../../../../protocol/open/answer.ts';
import { type JsonOpenItem, requestServer, runPath, type StreamedEvent } from '../../data/request.ts';
import type { EntriesPage } from '../../data/source.ts';
import { subjectOf } from '../../model/subject-of.ts';
import { describeShownCall } from '../../render/describe-call.ts';
import { formatMoment } from '../../render/format.ts';
import { Button } from '../../ui/button.tsx';
import { dropDrafts, hasDrafts, readDrafts } from '../../ui/draft-field.tsx';
import { LongText, Safe } from '../../ui/text.tsx';

/** The id of an open decision: another one if what is open or its input is another. */
export function decisionKeyOf({ id, digest }: JsonOpenItem): string {
  return `${id} ${digest}`;
}

/** A rejection, with its reason if there is one. */
export function rejectionFor(reason: JsonValue): Extract<DecisionAnswer, { type: 'reject' }> {
  return { type: 'reject', ...(reason !== '' && { reason: `${reason}` }) };
}

/** Submits a command to its run. Resolves to a problem for the person, or `null`. */
export type Act = (command: AnswerCommand) => Promise<string | null>;

export const ActContext = createContext<Act | null>(null);

export function useAct(): Act {
  const act = useContext(ActContext);
  if (act === null) throw new Error('Decisions need a view that submits them.');
  return act;
}

const MOST_READ = 1_000;

/** A call that was decided elsewhere: who decided what, and what a person had typed about it here. */
type Overtaken = { key: string; draftKey: string; words: string; typed: readonly string[] };

const overtaken = signal<readonly Overtaken[]>([]);

const sending = new Set<string>();

export const draftOf = ({ runId, callId }: JsonOpenItem): string => `${runId}/${callId}/`;

/** Runs what sends a decision about a call, which is this page's own then. */
export async function sendOwn(call: JsonOpenItem, send: () => Promise<string | null>): Promise<void> {
  sending.add(decisionKeyOf(call));
  const problem = await send();
  if (problem === null) dropDrafts(draftOf(call));
  else {
    sending.delete(decisionKeyOf(call));
    await noteOvertaken(call);
  }
}

export function useOvertaken(open: readonly JsonOpenItem[], shown: JsonOpenItem | undefined): void {
  const before = useRef<{ open: readonly JsonOpenItem[]; shown?: string }>({ open: [] });
  useEffect(() => {
    const keys = new Set(open.map(decisionKeyOf));
    for (const call of before.current.open) {
      const key = decisionKeyOf(call);
      if (keys.has(key) || sending.has(key)) continue;
      if (key === before.current.shown || hasDrafts(draftOf(call))) void noteOvertaken(call);
    }
    before.current = { open, ...(shown !== undefined && { shown: decisionKeyOf(shown) }) };
  }, [open.map(decisionKeyOf).join('\n'), shown === undefined ? '' : decisionKeyOf(shown)]);
}

async function noteOvertaken(call: JsonOpenItem): Promise<void> {
  const path = `${runPath(call.runId)}/entries?before=&limit=${MOST_READ}`;
  const page = await requestServer<EntriesPage>(path).catch(() => null);
  const words = page?.entries.map(event => describeDecision(event, call)).findLast(found => found !== null);
  if (!words) return;
  const [key, draftKey] = [decisionKeyOf(call), draftOf(call)];
  const others = overtaken.peek().filter(one => one.key !== key && one.typed.length > 0);
  overtaken.value = [...others, { key, draftKey, words, typed: readDrafts(draftKey) }];
}

/** Who decided what about the call as it was shown, if the event is that; empty if the call waits again since then. */
function describeDecision(event: StreamedEvent, call: JsonOpenItem): string | null {
  const { name, value } = subjectOf(call);
  const tell = ({ by, at }: { by?: string; at: number }, did = '', how = '.'): string =>
    `${formatMoment(at)}: ${by ?? 'Another person'} ${did} ${describeShownCall(name, value)}${how}`;
  if (event.type === 'cancel.requested') return tell(event, 'cancelled the run of');
  const isAbout =
    ('callId' in event && event.callId === call.callId) ||
    ('reviewId' in event && event.reviewId === call.callId);
  if (!isAbout) return null;
  switch (event.type) {
    case 'approval.decided':
    case 'review.decided': {
      const { decision, digest } = event;
      if (digest !== call.digest || decision.type === 'withdraw') return null;
      if (decision.type === 'reject') {
        const { reason } = decision;
        const did = event.type === 'review.decided' ? 'sent back' : 'rejected';
        return tell(event, did, reason && `: ${reason}`);
      }
      return tell(
        event,
        DID[decision.type],
        'input' in decision || 'text' in decision ? ' with changes' : '.',
      );
    }
    case 'result.received':
    case 'question.answered':
      return tell(event, 'answered');
    case 'doubt.resolved':
      return tell(event, DID[event.resolution.type]);
    case 'call.edited':
      return event.call.digest === call.digest ? '' : tell(event, 'edited');
    case 'tool.doubted':
      return '';
    default:
      return null;
  }
}

const DID: Readonly<Record<string, string>> = {
  approve: 'approved',
  answer: 'answered',
  retry: 'retried',
  happened: 'recorded the result of',
  failed: 'recorded the failure of',
};

export function OvertakenNotes() {
  return (
    <div class="overtaken" role="status">
      {overtaken.value.map(({ key, draftKey, words, typed }) => (
        <section key={key}>
          <p>
            <Safe text={words} />
            {typed.length === 0 ? '' : ' What you typed:'}
          </p>
          {typed.map(text => (
            <LongText key={text} text={text} kind="mono" />
          ))}
          <Button
            class="quiet"
            label="Dismiss"
            onClick={() => {
              dropDrafts(draftKey);
              overtaken.value = overtaken.peek().filter(one => one.key !== key);
            }}
          />
        </section>
      ))}
    </div>
  );
}
