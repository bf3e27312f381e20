import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { describeBytes, readContent } from '../../../../protocol/content/read-content.ts';
import { formatDuration } from '../../../../protocol/listing/format-duration.ts';
import { formatNumber } from '../../../../protocol/listing/format-number.ts';
import { describeVerdicts } from '../../../describe-event.ts';
import { barOf } from '../../data/caller.ts';
import { describeThrown, requestServer, runPath } from '../../data/request.ts';
import { type CallFacts, type CallRecord, factsAt } from '../../model/call-facts.ts';
import { formatJson, formatPreview, formatTimeOfDay, showSafe } from '../../render/format.ts';
import { Button } from '../../ui/button.tsx';
import { Details, Diff, MoreButton, ProblemText, Safe } from '../../ui/text.tsx';
import { FoldedValue, Summary } from '../../ui/value.tsx';
import { WhoMayDecide } from '../decisions/decision-forms.tsx';
import { decisionKeyOf } from '../decisions/open-decisions.tsx';
import { useDesk } from '../desk.ts';
import { ErrorBlock } from '../errors/error-block.tsx';
import type { Chosen } from '../steering/breakpoints.ts';

const PREVIEW = 90;

const STATUS_WORDS: Readonly<Record<string, string>> = {
  gated: 'needs approval',
  ready: 'ready',
  queued: 'queued',
  running: 'running',
  reconciling: 'checking its outcome',
  waiting: 'waits for a result',
  asking: 'asks',
  doubted: 'in doubt',
  background: 'in the background',
  settled: 'done',
  unsettled: 'no result',
};

export function CallCard({ record }: { record: CallRecord }) {
  const desk = useDesk();
  const { model, deciding } = desk;
  const call = factsAt(record, model.at.value, {
    folded: model.shown.value,
    progress: model.progress.value,
    isAtEnd: model.isAtEnd.value,
  });
  const { open } = call;
  return (
    <article
      class="call"
      data-status={call.status}
      id={`call-${call.callId}`}
      aria-label={`Call of ${showSafe(call.name)}, ${formatPreview(call.input, 40)}`}
    >
      <header>
        <Safe in="h3" text={call.name} class="mono" />
        <span class="time">{describeTime(call)}</span>
        <span class="badge">{STATUS_WORDS[call.status] ?? call.status}</span>
        {open && barOf(open) === null && (
          <Button
            class="quiet"
            label="Decide"
            onClick={() => {
              deciding.value = decisionKeyOf(open);
              document.querySelector<HTMLElement>('#decision-title')?.focus();
            }}
          />
        )}
        {desk.isSteered && (
          <Button
            class="quiet"
            label="Break…"
            title={`Break before calls of ${showSafe(call.name)}`}
            onClick={() => (desk.breaking.value = breakBefore(call))}
          />
        )}
      </header>
      <div class="call-story">
        {call.verdicts && (
          <p>
            <Safe text={describeVerdicts(call.verdicts)} class="mark" />
          </p>
        )}
        {describeHistory(call).map(line => (
          <Safe key={line} in="p" text={line} />
        ))}
        {open && <WhoMayDecide call={open} />}
        {open && <Safe in="p" text={barOf(open) ?? ''} />}
        {call.childRunId !== null && (
          <p>
            {call.background ? 'The work is in the background' : 'A sub-agent runs this call'}:{' '}
            <a href={runPath(call.childRunId)}>{showSafe(call.childRunId)}</a>
          </p>
        )}
      </div>
      <Input call={call} />
      {call.status === 'error' ? (
        <ErrorBlock
          title={`${showSafe(call.name)} failed`}
          advice="The model reads this error. To try another input or result, fork before the call."
          seq={record.told.find(({ type }) => type === 'call.started')?.seq ?? record.seq}
        >
          <Result call={call} runId={model.runId} />
        </ErrorBlock>
      ) : (
        <Result call={call} runId={model.runId} />
      )}
    </article>
  );
}

function breakBefore({ name, edited, input }: CallFacts): Chosen {
  const numbers = Object.entries((edited ?? input) || {}).filter(([, value]) => typeof value === 'number');
  const [path, value] = numbers[0] ?? [];
  const offered = path === undefined ? {} : { where: { path: `input.${path}`, op: '>=', value } as const };
  return { next: 'executeTools', tool: name, ...offered };
}

function Input({ call: { input, edited } }: { call: CallFacts }) {
  if (edited === null) return <FoldedValue what="input" value={input} path="input" />;
  return (
    <Details key="edited" open summary={<Summary what="edited" preview={formatPreview(edited, PREVIEW)} />}>
      {() => <Diff before={formatJson(input)} after={formatJson(edited)} />}
    </Details>
  );
}

function Result({ call, runId }: { call: CallFacts; runId: string }) {
  const { source } = useDesk();
  const { result, late, status, callId } = call;
  const stored = `${runPath(runId)}/results/${encodeURIComponent(callId)}`;
  const data = result === null ? undefined : readContent(result.output)?.data;
  const bad = result?.isError === true;
  return (
    <div class="call-result">
      {result && <FoldedValue what={bad ? status : 'result'} value={result.output} path="output" />}
      {data !== undefined && <FoldedValue what="data, not read by models" value={data} path="output.data" />}
      {result?.shown !== undefined && (
        <FoldedValue what="shown to the model" value={result.shown} path="shown" />
      )}
      {result?.blob && (
        <>
          {source.live && (
            <Details summary={<Summary what="full result" preview={describeBytes(result.blob.bytes)} />}>
              {() => <StoredResult at={stored} bytes={result.blob?.bytes ?? 0} />}
            </Details>
          )}
          <p>
            <a
              href={`${stored}/download`}
              download=""
            >{`Download the full result (${formatNumber(result.blob.bytes)} bytes)`}</a>
          </p>
        </>
      )}
      {late && (
        <FoldedValue what={late.isError ? 'late error' : 'late result'} value={late.output} path="output" />
      )}
      {late?.contradicts && (
        <ProblemText text={`The late result contradicts the journal: ${late.contradicts}.`} />
      )}
    </div>
  );
}

const PAGE_BYTES = 20_000;

/** A result that is not in the journal whole: its JSON, page by page. */
function StoredResult({ at, bytes }: { at: string; bytes: number }) {
  const texts = useSignal<readonly string[]>([]);
  const next = useSignal<number | undefined>(0);
  const problem = useSignal('');
  const read = async (): Promise<void> => {
    try {
      const page = await requestServer<{ text: string; next?: number }>(
        `${at}?offset=${next.peek()}&limit=${PAGE_BYTES}`,
      );
      texts.value = [...texts.peek(), page.text];
      next.value = page.next;
    } catch (error) {
      problem.value = describeThrown(error);
    }
  };
  useEffect(() => void read(), [at]);
  return (
    <div class="long mono">
      {texts.value.map((text, index) => (
        <bdi key={index} dir="auto" class="text">
          {showSafe(text)}
        </bdi>
      ))}
      <ProblemText text={problem.value} />
      {next.value !== undefined && <MoreButton left={bytes - next.value} onMore={() => void read()} />}
    </div>
  );
}

function describeTime({ starts, settledAt }: CallFacts): string {
  const first = starts[0];
  if (first === undefined) return '';
  const took =
    settledAt === null ? `since ${formatTimeOfDay(first.at)}` : formatDuration(settledAt - first.at);
  return `${took}${starts.length > 1 ? `, ${starts.length} attempts` : ''}`;
}

function describeHistory(call: CallFacts): string[] {
  const open = call.status === 'gated' || call.status === 'doubted';
  const lines = [
    call.gate && call.reason !== undefined && `Needs approval: ${call.reason}`,
    call.status === 'gated' &&
      call.expiresAt !== undefined &&
      `Expires at ${formatTimeOfDay(call.expiresAt)}`,
    ...call.decisions.map(
      ({ what, at, by, reason }) =>
        `${what.charAt(0).toUpperCase()}${what.slice(1)}${by === undefined ? '' : ` by ${by}`} at ${formatTimeOfDay(at)}${reason === undefined ? '' : `: ${reason}`}`,
    ),
    call.interrupted && 'The process ended while the call ran',
    call.doubt !== null && `In doubt: ${call.doubt}`,
    open && call.sideEffect === 'once' && 'This call must not run twice',
    call.status === 'doubted' && call.key !== null && `Idempotency key: ${call.key}`,
    call.progress !== null && `Progress: ${formatPreview(JSON.stringify(call.progress), PREVIEW)}`,
  ];
  return lines.filter(line => line !== false);
}
