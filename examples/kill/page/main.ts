import { effect } from '@preact/signals';
import { type Following, followShownRun } from '../../../visualizer/page/data/follow-run.ts';
import { httpSource } from '../../../visualizer/page/data/http-source.ts';
import { RequestError, requestServer } from '../../../visualizer/page/data/request.ts';
import { RunModel } from '../../../visualizer/page/model/run-model.ts';
import type { DemoState, Side } from '../demo-state.ts';
import { makeChartPicture } from './chart-picture.ts';
import { makeDesk } from './desk.ts';
import { makeDoubtQuestion } from './doubt-question.ts';
import { h } from './element.ts';
import { lookAtLoop } from './look-at-loop.ts';
import { lookAtRun } from './look-at-run.ts';
import { makeLoopPicture } from './loop-picture.ts';
import { makeSidePanel } from './side-panel.ts';

let state: DemoState | null = null;
let model: RunModel | null = null;
let following: Following = { look() {}, end() {} };
let unwatch = (): void => {};
let scheduled = false;

const problem = h('p', { class: 'problem', role: 'alert' });
const runLink = h('a', { hidden: true }, 'The run’s own page');
const loop = makeLoopPicture();
const chart = makeChartPicture();
const question = makeDoubtQuestion((command, body) => void send(submitCommands(command, body)));
const repeatNote = h(
  'p',
  { class: 'told', hidden: true },
  'There was no record that refund(call) had started, so it ran again.',
);
const plainPanel = makeSidePanel({
  side: 'plain',
  title: 'A plain loop',
  claim: 'acts, then records',
  recordName: 'On record',
  picture: loop.element,
  question: repeatNote,
  kill: () => kill(['plain']),
});
const chartPanel = makeSidePanel({
  side: 'chart',
  title: 'agentchart',
  claim: 'records, then acts',
  recordName: 'Journal',
  picture: chart.element,
  question: question.element,
  kill: () => kill(['chart']),
});
const desk = makeDesk({
  approve,
  kill: () => kill(['plain', 'chart']),
  again: () => void send(requestServer('/demo/again', {})),
});

document.body.append(
  h('header', { class: 'top' }, h('h1', {}, 'A $99 refund. Kill it at any time.'), problem, runLink),
  h('main', {}, plainPanel.element, desk.element, chartPanel.element),
);
const runs = httpSource();
const source = new EventSource('/demo/state');
source.addEventListener('message', ({ data }) => {
  problem.textContent = '';
  state = JSON.parse(data);
  follow(state?.chart.runId ?? null);
  drawSoon();
});
source.addEventListener('error', () => {
  problem.textContent = 'npm run demo:kill has ended.';
});

function follow(runId: string | null): void {
  if (runId === (model?.runId ?? null)) return;
  following.end();
  unwatch();
  model = runId === null ? null : new RunModel(runId);
  if (model !== null) {
    const { told, view, live, connection } = model;
    following = followShownRun(runs, model, () => {});
    unwatch = effect(() => {
      void [told.value, view.value, live.value, connection.value];
      drawSoon();
    });
  }
  runLink.hidden = runId === null;
  if (runId !== null) runLink.href = `/runs/${encodeURIComponent(runId)}`;
}

function drawSoon(): void {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(draw);
}

function draw(): void {
  scheduled = false;
  if (state === null) return;
  const { plain, chart: ours } = state;
  loop.update(plain);
  repeatNote.hidden = plain.ledger.lines.length < 2;
  chart.update(model);
  question.update(model, ours);
  plainPanel.update(plain, lookAtLoop(plain));
  chartPanel.update(ours, lookAtRun(model, ours));
  const asking = Number(asksPlain()) + Number(gatedCall() !== undefined);
  desk.update({ asking, kills: plain.kills + ours.kills });
}

function asksPlain(): boolean {
  return state?.plain.loop?.at === 'askPerson';
}

function gatedCall(): string | undefined {
  return model?.fold.context?.calls.find(({ status }) => status === 'gated')?.callId;
}

/** Approves both sides. */
function approve(): void {
  const callId = gatedCall();
  if (asksPlain()) void send(requestServer('/demo/approve-plain', {}));
  if (callId !== undefined) void send(submitCommands('approve', { callId }));
}

function kill(sides: readonly Side[]): void {
  void send(requestServer('/demo/kill', { sides }));
}

async function submitCommands(command: string, body: object = {}): Promise<void> {
  if (model === null) return;
  await requestServer(`/runs/${encodeURIComponent(model.runId)}/${command}`, { ...body, by: 'you' });
  following.look();
}

async function send(sent: Promise<unknown>): Promise<void> {
  try {
    await sent;
    problem.textContent = '';
  } catch (error) {
    if (error instanceof RequestError && error.status === 409) return following.look();
    problem.textContent = error instanceof Error ? error.message : String(error);
  }
}
