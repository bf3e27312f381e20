import { CommandLines } from '../../../cli/render/command-lines.ts';
import { Output } from '../../../cli/render/output.ts';
import { showWaiting } from '../../../cli/render/show-open.ts';
import { TerminalView } from '../../../cli/render/terminal-view.ts';
import { beginFold, foldEntry } from '../../../engine/journal/load-run.ts';
import type { Run } from '../../../engine/run/run.ts';
import { toUIMessageResponse, toUIMessages } from '../../../fronts/ai-sdk-ui/index.ts';
import { localRun } from '../../../fronts/react/local-run.ts';
import type { ObservedRun } from '../../../fronts/react/run-snapshot.ts';
import type { RunView } from '../../../protocol/run-view.ts';
import { createRunsApp } from '../../../server/app.ts';
import { type CallRecord, factsAt } from '../../../visualizer/page/model/call-facts.ts';
import { RunModel } from '../../../visualizer/page/model/run-model.ts';
import { type Recording, recordPhases, type Surface } from './record.ts';
import { type Scenario, Stage } from './stage.ts';

/** Surfaces that show a run of this process. */

type Follow = (run: Run, recording: Recording, stage: Stage) => Promise<void>;
type Ways = { late?: (run: Run, stage: Stage) => Promise<string>; end?: Follow };

/** Records what a surface shows of a run in each phase, to late readers, and at the end. */
async function follow(scenario: Scenario, show: Follow, { late, end }: Ways = {}): Promise<string> {
  const stage = await Stage.open(scenario);
  let run: Run | undefined;
  const recording = await recordPhases(
    stage,
    async (act, recording) => {
      run ??= await stage.begin();
      if (act !== null) await stage.act(act);
      await show(run, recording, stage);
    },
    late && (async () => await late(await stage.opened(), stage)),
  );
  if (run !== undefined) await stage.until(end?.(run, recording, stage) ?? Promise.resolve());
  return await recording.text(stage);
}

async function readText(run: Run): Promise<string> {
  const pieces: string[] = [];
  for await (const piece of run.text()) pieces.push(JSON.stringify(piece));
  return pieces.join('\n');
}

const runText: Surface = {
  name: 'run-text',
  record: scenario =>
    follow(
      scenario,
      async (run, recording) => {
        recording.add(await readText(run));
        const settled = await run.settled();
        recording.json({ settled: settled.status, ...('text' in settled && { text: settled.text }) });
      },
      { late: readText },
    ),
};

/** The frames of server-sent events, a line for each. */
export async function readFrames(response: Response): Promise<string> {
  const text = await response.text();
  return text
    .split('\n\n')
    .map(frame => frame.replaceAll('\n', ' ↵ '))
    .join('\n');
}

/** A reader with each version of the AI SDK. */
const aiSdk: Surface = {
  name: 'ai-sdk-response',
  record: scenario => {
    const read = async (run: Run, aiSdk: 6 | 7) => await readFrames(toUIMessageResponse(run, { aiSdk }));
    return follow(
      scenario,
      async (run, recording) => {
        const [seventh, sixth] = await Promise.all([read(run, 7), read(run, 6)]);
        recording.add(seventh);
        recording.title('the same for AI SDK 6');
        recording.add(sixth);
      },
      {
        late: async run => await read(run, 7),
        async end(run, recording) {
          recording.title('the messages');
          for (const { parts, ...message } of await toUIMessages(run)) recording.json([message, ...parts]);
        },
      },
    );
  },
};

/** A run's snapshots, without the context of each. */
export async function watchSnapshots(
  observed: ObservedRun<{ seq: number } | { turns: number }>,
  work: () => Promise<unknown>,
): Promise<string> {
  const seen: string[] = [];
  let before: Record<string, unknown> = {};
  const note = () => {
    const { context, ...snapshot } = observed.getSnapshot();
    const at = context && ('seq' in context ? context.seq : context.turns);
    const now: Record<string, unknown> = { ...snapshot, at };
    const changed = Object.entries(now).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]),
    );
    for (const name of Object.keys(before)) if (!(name in now)) changed.push([name, undefined]);
    seen.push(JSON.stringify(Object.fromEntries(changed)));
    before = now;
  };
  note();
  const unsubscribe = observed.subscribe(note);
  await work();
  unsubscribe();
  return seen.join('\n');
}

const reactLocal: Surface = {
  name: 'react-local',
  record: scenario => {
    const watch = async (run: Run, stage: Stage) =>
      await watchSnapshots(localRun(run), async () => {
        await run.settled();
        await stage.host.idle();
      });
    return follow(scenario, async (run, recording, stage) => recording.add(await watch(run, stage)), {
      late: watch,
    });
  },
};

/** Takes what is written to the terminal meanwhile. Commands are named as those of an installed package. */
async function withTerminal<Value>(
  isTTY: boolean,
  write: (text: string) => void,
  work: () => Promise<Value>,
): Promise<Value> {
  const { stdout } = process;
  const before = { isTTY: stdout.isTTY, write: stdout.write, columns: stdout.columns, argv: process.argv };
  const env = ['NO_COLOR', 'npm_lifecycle_event', 'npm_command'].map(
    name => [name, process.env[name]] as const,
  );
  for (const [name] of env) delete process.env[name];
  process.env.NO_COLOR = '1';
  process.argv = ['node', 'agentchart'];
  const take = (text: string | Uint8Array) => {
    write(String(text));
    return true;
  };
  Object.assign(stdout, { isTTY, columns: 80, write: take });
  try {
    return await work();
  } finally {
    const { argv, ...shape } = before;
    Object.assign(stdout, shape);
    process.argv = argv;
    for (const [name, value] of env) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
}

/** One output for all: each listens to the process's stdout. */
const outputs = new Map<boolean, Output>();

const terminal = (isTTY: boolean): Surface => ({
  name: isTTY ? 'terminal-live' : 'terminal-piped',
  async record(scenario) {
    let written = '';
    const take = (text: string) => {
      written += text;
    };
    return await withTerminal(isTTY, take, async () => {
      const output = outputs.get(isTTY) ?? new Output({ json: false });
      outputs.set(isTTY, output);
      const commands = new CommandLines('.agentchart/runs.db');
      const views = new Map<Run, { view: TerminalView; seq: number }>();
      const show = async (run: Run, stage: Stage, after: number) => {
        const entries = (await stage.store.read(run.id)).slice(0, after);
        const [first] = entries;
        const begun = first?.event.type === 'run.started' ? beginFold(first.event) : null;
        const state =
          begun && entries.slice(1).reduce((folded, entry) => foldEntry(folded, entry, run.id), begun);
        const filters = stage.agent.options.textFilters ?? [];
        const begin = state && { begin: { state, seq: after } };
        const known = views.get(run) ?? {
          view: new TerminalView({ output, runId: run.id, filters, ...begin }),
          seq: after,
        };
        views.set(run, known);
        for await (const happening of run.events({ after: known.seq })) {
          known.view.take(happening);
          if ('seq' in happening) known.seq = happening.seq;
        }
        const settled = await run.settled();
        if (settled.status !== 'waiting') known.view.end(settled, commands);
        else showWaiting(output, settled, commands, run.context, stage.host.now());
        output.endLine();
      };
      return await follow(
        scenario,
        async (run, recording, stage) => {
          written = '';
          await show(run, stage, 0);
          recording.add(written);
        },
        {
          async end(run, recording, stage) {
            for (const after of isTTY ? [3, 6] : []) {
              written = '';
              views.clear();
              await show(await stage.agent.open(run.id), stage, after);
              recording.title(`from entry ${after + 1} on`);
              recording.add(written);
            }
          },
        },
      );
    });
  },
});

/** The members of a value that changed, by what they show. */
class Shown {
  readonly #seen = new Map<string, string>();

  changed(values: Readonly<Record<string, unknown>>): string[] {
    return Object.entries(values).flatMap(([name, value]) => {
      const text = JSON.stringify(value) ?? 'undefined';
      if (this.#seen.get(name) === text) return [];
      this.#seen.set(name, text);
      return [`  ${name}: ${text}`];
    });
  }
}

async function viewOf(run: Run, { agent, store, host }: Stage): Promise<RunView> {
  const app = createRunsApp({ store, agents: new Map([['desk', agent]]), host });
  const url = `http://127.0.0.1:4100/runs/${encodeURIComponent(run.id)}`;
  const response = await app.request(url, { headers: { host: '127.0.0.1:4100' } });
  app.close();
  return (await response.json()) as RunView;
}

function imageOf(model: RunModel): Record<string, unknown> {
  const { blocks, rows } = model.story;
  const live = model.live.value;
  const source = { folded: model.fold, progress: model.progress.value, isAtEnd: true };
  const factsOf = (record: CallRecord) => factsAt(record, model.last.value, source);
  return {
    live: live && { ...live, parts: Object.fromEntries(live.parts) },
    path: model.path.value,
    progress: [...model.progress.value],
    ...Object.fromEntries([
      ...blocks.map(block => {
        const shown = block.kind === 'call' ? { ...block, record: factsOf(block.record) } : block;
        return [`block ${block.kind} ${block.key}`, shown];
      }),
      ...rows.map((row, index) => {
        if ('told' in row) return [`row ${index}`, { call: row.call.callId }];
        if ('compaction' in row) return [`row ${index}`, { ...row, compaction: row.compaction.type }];
        return [`row ${index}`, 'ended' in row ? { ...row, ended: row.ended.type } : row];
      }),
    ]),
  };
}

/** The replies as the page shows them with the cursor at an entry. */
function repliesOf(model: RunModel): Record<string, unknown> {
  return Object.fromEntries(
    model.story.blocks.flatMap(block =>
      block.kind === 'reply' ? [[`reply ${block.key}`, model.readReply(block)]] : [],
    ),
  );
}

const page: Surface = {
  name: 'page',
  record(scenario) {
    const models = new Map<Run, { model: RunModel; shown: Shown }>();
    const read = async (run: Run, { model, shown }: { model: RunModel; shown: Shown }) => {
      const lines: string[] = [];
      for await (const happening of run.events({ after: model.last.value })) {
        if ('seq' in happening) model.takeEntries([happening]);
        else model.takeDelta(happening);
        const name = 'seq' in happening ? `${happening.seq} ${happening.type}` : happening.type;
        lines.push(name, ...shown.changed({ ...imageOf(model), ...repliesOf(model) }));
      }
      return lines.join('\n');
    };
    const show = async (run: Run, recording: Recording, stage: Stage) => {
      const known = models.get(run) ?? { model: new RunModel(run.id), shown: new Shown() };
      models.set(run, known);
      recording.add(await read(run, known));
      known.model.takeView(await viewOf(run, stage));
      recording.add(['the view', ...known.shown.changed(repliesOf(known.model))].join('\n'));
    };
    return follow(scenario, show, {
      /** A page that is opened in the middle of a turn gets its text so far. */
      async late(run, stage) {
        const { turn } = run.context;
        const [model, shown] = [new RunModel(run.id), new Shown()];
        for (const { seq, event } of await stage.store.read(run.id))
          model.takeEntries([{ ...event, seq, runId: run.id }]);
        model.takeTextSoFar({ turn: turn.number, attempt: turn.attempt, text: 'The text so far.' });
        const before = shown.changed({ ...imageOf(model), ...repliesOf(model) });
        return [...before, await read(run, { model, shown })].join('\n');
      },
      async end(run, recording) {
        const { model } = models.get(run) ?? { model: new RunModel(run.id) };
        const shown = new Shown();
        recording.title('the replies at each entry');
        for (let seq = 1; seq <= model.last.value; seq += 1) {
          model.choose(seq);
          const changed = shown.changed(repliesOf(model));
          if (changed.length > 0) recording.add([`at ${seq}`, ...changed].join('\n'));
        }
      },
    });
  },
};

export const DIRECT: readonly Surface[] = [runText, aiSdk, reactLocal, terminal(true), terminal(false), page];
