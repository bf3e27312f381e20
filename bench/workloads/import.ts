import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as z from 'zod';
import type { Workload } from '../workload.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const BARE = 'bare node';

/** The cost of importing a package in a new process. Agentchart is measured as built. */
export const importing: Workload = {
  name: 'import',
  title: 'Import (a new process that imports one package and exits)',
  contenders: [BARE, 'xstate', 'zod', 'openai', 'agentchart/machine', 'agentchart'],
  repetitions: 4,
  columns: [
    { label: 'import ms', metric: 'importMs', digits: 1, aims: { agentchart: '30' } },
    { label: 'CPU ms', metric: 'cpuMs', digits: 1 },
    { label: 'RSS added MB', metric: 'addedMb', digits: 1 },
    { label: 'RSS MB', metric: 'rssMb', digits: 1 },
    { label: 'process ms', metric: 'processMs' },
  ],
  prepare: buildIfStale,
  async measure(name) {
    const source = name === BARE ? '' : `await import(${JSON.stringify(name)});`;
    const begun = performance.now();
    const child = spawnSync(process.execPath, ['--input-type=module', '-e', measuring(source)], {
      cwd: ROOT,
    });
    const processMs = performance.now() - begun;
    if (child.status !== 0) throw new Error(`import of ${name} failed: ${child.stderr.toString()}`);
    return {
      requests: '',
      metrics: { ...reportSchema.parse(JSON.parse(child.stdout.toString())), processMs },
    };
  },
};

const reportSchema = z.object({
  importMs: z.number(),
  cpuMs: z.number(),
  addedMb: z.number(),
  rssMb: z.number(),
});

/** Returns a module that measures `source`. In JavaScript, so that stripping types is not measured. */
function measuring(source: string): string {
  return `
    const cpu = process.cpuUsage(), rss = process.memoryUsage.rss(), begun = performance.now();
    ${source}
    const importMs = performance.now() - begun, spent = process.cpuUsage(cpu), after = process.memoryUsage.rss();
    console.log(JSON.stringify({
      importMs, cpuMs: (spent.user + spent.system) / 1000,
      addedMb: (after - rss) / 2 ** 20, rssMb: after / 2 ** 20,
    }));
  `;
}

/** Builds the package if a source file is newer than the build. */
function buildIfStale(): void {
  const built = newest(join(ROOT, 'dist'), '.js');
  const folders = [
    'protocol',
    'machines',
    'engine',
    'adapters',
    'tools',
    'stores',
    'text',
    'server',
    'cli',
    'visualizer',
  ];
  const sources = folders.map(folder => newest(join(ROOT, folder), '.ts'));
  if (built > Math.max(...sources, statSync(join(ROOT, 'build.ts')).mtimeMs)) return;
  process.stderr.write('Building the package.\n');
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
  const build = spawnSync(npm, ['run', '-s', 'build'], { cwd: ROOT, encoding: 'utf8' });
  if (build.status !== 0) throw new Error(`npm run build failed:\n${build.stdout}${build.stderr}`);
}

/** Returns the latest modification time of a folder's files, in ms since the epoch; 0 without files. */
function newest(folder: string, ending: string): number {
  if (!existsSync(folder)) return 0;
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(name =>
    name.endsWith(ending),
  );
  return files.reduce((latest, file) => Math.max(latest, statSync(join(folder, file)).mtimeMs), 0);
}
