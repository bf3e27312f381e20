import { backtest } from '../../explore/backtest/backtest.ts';
import { ruledAgents, viewRule } from '../../explore/ruled-agents.ts';
import { invalidInput } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Action } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { loadAgent } from '../load-agent.ts';
import { exitWhenDone, watchInterrupts } from '../process-end.ts';
import { Output } from '../render/output.ts';
import { withProgress } from '../render/progress.ts';
import { showBacktest, showRules } from '../render/show-rules.ts';
import { findRun, withExistingStore } from '../store.ts';

/** Executes nothing; starts tool servers only with `--connect`. */
export const rules: Action<'rules'> = async options => {
  const { agent: module, connect = false, cases, status, since, before, label: labels } = options;
  const filter = omitUndefined({ since, before, labels, status });
  if (options.backtest !== true) {
    const [given] = [...options.runs, ...Object.keys(filter)];
    if (given !== undefined) throw invalidInput('Give runs and filters of runs only with --backtest.');
    return await listRules(module, connect, new Output(options));
  }
  const agent = await loadAgent(module);
  return await withExistingStore(options, async ({ store, output, commands }) => {
    const found = await Promise.all(options.runs.map(id => findRun(store, id)));
    const runs = found.length === 0 ? undefined : found.map(({ runId }) => runId);
    const stop = new AbortController();
    const end = watchInterrupts({ first: () => stop.abort(), again: () => process.exit(EXIT.left) });
    try {
      const given = { ...filter, ...omitUndefined({ runs }), store, cases, connect, signal: stop.signal };
      const report = await withProgress(show =>
        backtest(agent, { ...given, onProgress: (done, all) => show(`${done} of ${all} runs`) }),
      );
      if (output.json) output.data(report);
      else showBacktest(output, report, commands);
      if (report.complete) return EXIT.done;
      exitWhenDone();
      return EXIT.incomplete;
    } finally {
      end();
    }
  });
};

async function listRules(module: string, connects: boolean, output: Output): Promise<number> {
  const agent = await loadAgent(module);
  const { agents, close } = await ruledAgents(agent, agent.store, connects);
  try {
    const views = [...agents.values()].flatMap(one => one.rules.map(rule => viewRule(one, rule)));
    const lacksTools = [...agents.values()].some(({ lacks }) => lacks !== undefined);
    if (output.json) output.data({ agent: agent.name, rules: views, lacksTools });
    else showRules(output, { agent: agent.name, rules: views, lacksTools });
    return EXIT.done;
  } finally {
    await close();
  }
}
