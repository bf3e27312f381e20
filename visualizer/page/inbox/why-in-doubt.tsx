import { shortenOwnerName } from '../../../protocol/owner-name.ts';
import { type RunView, requestServer, runPath, type StreamedEvent } from '../data/request.ts';
import { useRead } from '../data/server-watch.ts';
import type { EntriesPage } from '../data/source.ts';
import { formatMoment } from '../render/format.ts';
import { Safe } from '../ui/text.tsx';

/** What the journal has of the start of a call in doubt. */
export function WhyInDoubt({ runId, callId }: { runId: string; callId: string }) {
  const { answer: facts } = useRead(() => explainDoubt(runId, callId), [runId, callId]);
  return (
    <section class="why-doubt">
      <h3>Why it is in doubt</h3>
      <p>
        The tool was started, and the journal has no result. It may have acted or not. Check where it acts,
        for example at the payment provider by the key below; then decide.
      </p>
      <ol>
        {facts?.map(({ seq, text }) => (
          <li key={seq}>
            <a href={`${runPath(runId)}?at=${seq}`}>{`Entry ${seq}`}</a> <Safe text={text} />
          </li>
        ))}
      </ol>
    </section>
  );
}

const PAGE = 1_000;
const MOST_PAGES = 10;

type Fact = { seq: number; text: string };

async function explainDoubt(runId: string, callId: string): Promise<Fact[]> {
  const events = await readSinceStart(runId, callId);
  const started = events.findIndex(event => event.type === 'tool.started' && event.callId === callId);
  if (started < 0) return [];
  const owner = events.slice(0, started).findLast(event => event.type === 'run.claimed');
  return events.slice(started).flatMap(event => explain(event, callId, owner?.by));
}

/** The newest entries, back to the first start of the call and the claim before it. */
async function readSinceStart(runId: string, callId: string): Promise<StreamedEvent[]> {
  const path = runPath(runId);
  const { seq } = await requestServer<RunView>(path);
  let events: StreamedEvent[] = [];
  for (let before = seq + 1, pages = 0; before > 1 && pages < MOST_PAGES; pages += 1) {
    const page = await requestServer<EntriesPage>(`${path}/entries?before=${before}&limit=${PAGE}`);
    events = [...page.entries, ...events];
    before = page.entries[0]?.seq ?? 1;
    const started = events.findIndex(event => event.type === 'tool.started' && event.callId === callId);
    if (events.slice(0, Math.max(0, started)).some(event => event.type === 'run.claimed')) break;
  }
  return events;
}

function explain(event: StreamedEvent, callId: string, owner: string | undefined): Fact[] {
  const fact = (text: string): Fact[] => [{ seq: event.seq, text: `${formatMoment(event.at)}: ${text}` }];
  if (event.type === 'run.claimed') {
    if (event.replaces === undefined) return [];
    return fact(`${shortenOwnerName(event.replaces)} was gone; ${shortenOwnerName(event.by)} took over.`);
  }
  if (!('callId' in event) || event.callId !== callId) return [];
  if (event.type === 'tool.started') {
    const by = owner === undefined ? 'a process' : shortenOwnerName(owner);
    return fact(`${by} started the tool, attempt ${event.attempt}, with the key ${event.key}.`);
  }
  if (event.type === 'tool.interrupted')
    return fact('the journal had a start and no result: the process ended in between.');
  return event.type === 'tool.doubted' ? fact(`in doubt: ${event.reason}`) : [];
}
