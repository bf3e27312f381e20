import { readContent } from '../../../protocol/content/read-content.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import type { Act } from '../commands/act.ts';
import { lazyDetails } from '../panes/panels.ts';
import { fill, h, type View } from '../render/element.ts';
import {
  formatClock,
  formatJson,
  formatNumber,
  formatOutput,
  formatSpan,
  formatValue,
} from '../render/format.ts';
import { longText } from '../render/long-text.ts';
import { showSafely } from '../render/show-safely.ts';
import type { CallFacts } from './call-facts.ts';
import { makeApproval, makeResolution, makeResult } from './decide-call.ts';
import { diffLines } from './diff-lines.ts';

const PREVIEW = 90;

const STATUS_WORDS: Readonly<Record<string, string>> = {
  gated: 'needs approval',
  ready: 'ready',
  queued: 'queued',
  running: 'running',
  reconciling: 'checking its outcome',
  waiting: 'waits for a result',
  doubted: 'in doubt',
  settled: 'done',
  unsettled: 'no result',
};

/** A tool call in the conversation, with the forms to decide about it. `act` submits the decision. */
export function makeCallView(runId: string, act: Act): View<CallFacts> {
  const head = h('header');
  const input = h('div', { class: 'call-input' });
  const story = h('div', { class: 'call-story' });
  const result = h('div', { class: 'call-result' });
  const action = h('div', { class: 'call-action' });
  const problem = h('p', { class: 'problem', role: 'alert' });
  const element = h('article', { class: 'call' }, head, story, input, action, problem, result);
  return {
    element,
    update(call) {
      const failed = call.result?.isError === true;
      const status = failed ? 'error' : call.status;
      element.dataset.status = status;
      element.setAttribute('aria-label', `Call of ${showSafely(call.name)}`);
      element.id = `call-${call.callId}`;
      const isOpen = call.status === 'gated' || call.status === 'doubted' || call.status === 'waiting';
      fill(head, [call.name, status, describeTime(call)], () => makeHead(call, failed));
      fill(input, [call.input, call.edited, isOpen], () => makeInput(call, isOpen));
      fill(story, describeHistory(call), () =>
        describeHistory(call).map(line => h('p', {}, h('bdi', {}, showSafely(line)))),
      );
      const output = call.result?.output;
      const data = output === undefined ? undefined : readContent(output)?.data;
      fill(result, [call.result, call.late], () => [
        output === undefined ? null : makeOutput(failed ? 'error' : 'result', output),
        data === undefined ? null : makeOutput('data, not read by models', data),
        call.result?.shown === undefined ? null : makeOutput('shown to the model', call.result.shown),
        call.result?.blob === undefined ? null : linkDownload(runId, call.callId, call.result.blob.bytes),
        call.late === null
          ? null
          : makeOutput(call.late.isError ? 'late error' : 'late result', call.late.output),
        call.late?.contradicts == null ? null : makeContradiction(call.late.contradicts),
      ]);
      const open = call.open;
      fill(action, [open?.callId, open?.status, open?.digest, open?.runId], () =>
        makeForms(call, runId, act, problem),
      );
    },
  };
}

function makeContradiction(contradicts: string): HTMLElement {
  const text = `The late result contradicts the journal: ${contradicts}.`;
  return h('p', { class: 'problem', role: 'alert' }, h('bdi', {}, showSafely(text)));
}

function makeHead(call: CallFacts, failed: boolean): HTMLElement[] {
  const words = failed && call.status === 'settled' ? 'error' : (STATUS_WORDS[call.status] ?? call.status);
  return [
    h('h3', {}, h('bdi', { class: 'mono' }, showSafely(call.name))),
    h('span', { class: 'time' }, describeTime(call)),
    h('span', { class: 'badge' }, words),
  ];
}

function describeTime({ starts, settledAt }: CallFacts): string {
  const first = starts[0];
  if (first === undefined) return '';
  const attempts = starts.length > 1 ? `, ${starts.length} attempts` : '';
  return settledAt === null
    ? `since ${formatClock(first.at)}${attempts}`
    : `${formatSpan(settledAt - first.at)}${attempts}`;
}

function makeInput({ input, edited }: CallFacts, open: boolean): HTMLElement[] {
  const preview = h('bdi', { class: 'mono preview' }, formatValue(edited ?? input, PREVIEW));
  if (edited === null) {
    return [
      lazyDetails(
        [h('span', { class: 'what' }, 'input'), preview],
        () => longText(formatJson(input), 'mono'),
        open,
      ),
    ];
  }
  const changes = (): HTMLElement =>
    h(
      'div',
      { class: 'diff' },
      h(
        'ol',
        {},
        ...diffLines(formatJson(input), formatJson(edited)).map(({ kind, text }) =>
          h('li', { class: `diff-line ${kind}` }, showSafely(text)),
        ),
      ),
    );
  return [lazyDetails([h('span', { class: 'what' }, 'edited'), preview], changes, true)];
}

/** The page has only the beginning and end of a large result. */
function linkDownload(runId: string, callId: string, bytes: number): HTMLElement {
  const path = `/runs/${encodeURIComponent(runId)}/results/${encodeURIComponent(callId)}/download`;
  return h(
    'p',
    { class: 'whole' },
    h('a', { href: path, download: '' }, `Download the full result (${formatNumber(bytes)} bytes)`),
  );
}

function makeOutput(what: string, output: JsonValue): HTMLElement {
  const text = formatOutput(output);
  const preview = h('bdi', { class: 'mono preview' }, formatValue(text, PREVIEW));
  return lazyDetails([h('span', { class: 'what' }, what), preview], () => longText(text, 'mono'));
}

/** One line per fact about the call. */
function describeHistory(call: CallFacts): string[] {
  const open = call.status === 'gated' || call.status === 'doubted';
  return [
    ...(call.reason !== undefined && call.gate ? [`Needs approval: ${call.reason}`] : []),
    ...(call.status === 'gated' && call.expiresAt !== undefined
      ? [`Expires at ${formatClock(call.expiresAt)}`]
      : []),
    ...call.decisions.map(
      ({ what, at, by, reason }) =>
        `${capitalize(what)}${by === undefined ? '' : ` by ${by}`} at ${formatClock(at)}${reason === undefined ? '' : `: ${reason}`}`,
    ),
    ...(call.interrupted ? ['The process ended while the call ran'] : []),
    ...(call.doubt !== null ? [`In doubt: ${call.doubt}`] : []),
    ...(open && call.sideEffect === 'once' ? ['This call must not run twice'] : []),
    ...(call.status === 'doubted' && call.key !== null ? [`Idempotency key: ${call.key}`] : []),
    ...(call.progress === null ? [] : [`Progress: ${formatValue(JSON.stringify(call.progress), PREVIEW)}`]),
  ];
}

function makeForms(call: CallFacts, runId: string, act: Act, problem: HTMLElement): HTMLElement | null {
  const { open } = call;
  if (open === null) return null;
  if (open.runId !== runId) {
    return h(
      'p',
      {},
      'A sub-agent runs this call: ',
      h('a', { href: `/runs/${encodeURIComponent(open.runId)}` }, open.runId),
    );
  }
  switch (open.status) {
    case 'gated':
      return makeApproval(open, act, problem);
    case 'waiting':
      return makeResult(open, act, problem);
    case 'doubted':
      return makeResolution(open, act, problem);
    default:
      return null;
  }
}

function capitalize(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
