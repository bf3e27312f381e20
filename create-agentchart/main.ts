#!/usr/bin/env node

/** `npm create agentchart [DIR] -- [--store sqlite|postgres] [--yes] [--force]`: writes a project. */
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const USAGE = `Usage: npm create agentchart [DIR] -- [options]

Writes a project with an agent, a test, a page and a Dockerfile.

Options:
  --store sqlite|postgres  where runs are kept (default: sqlite)
  --yes                    ask nothing
  --force                  write into a folder that is not empty; files of the same name are replaced
  --help                   show this help`;

const STORES = {
  sqlite: {
    db: 'data/runs.db',
    runs: 'one SQLite file, `data/runs.db`',
    start: '',
    docker: 'docker run -p 127.0.0.1:3000:3000 -v runs:/app/data --env-file .env -e PEOPLE={{name}}',
  },
  postgres: {
    db: 'postgres://agents:agents@127.0.0.1:5432/agents',
    runs: 'a PostgreSQL database',
    start:
      'The server needs the database of `compose.yaml`: `docker compose up -d postgres`. The tests do not.\n\n',
    docker: 'docker compose up --build',
  },
};

type StoreName = keyof typeof STORES;

const isStore = (name: string): name is StoreName => Object.hasOwn(STORES, name);

/** What is wrong with what a person gave: printed without a stack. */
class Refusal extends Error {}

/** The folder of this package: the program is in `dist` of it, or beside its sources. */
function findPackage(): string {
  const here = fileURLToPath(new URL('.', import.meta.url));
  return existsSync(join(here, 'template')) ? here : join(here, '..');
}

/** The name of a folder is that of its package, as npm allows it. */
function checkName(name: string): void {
  if (!/^[a-z0-9][a-z0-9._-]*$/.test(name) || name.length > 214)
    throw new Refusal(
      `"${name}" cannot be the name of a package: use small letters, digits, "-", "_" and ".", beginning with a letter or a digit.`,
    );
  if (name === 'node_modules' || name === 'agentchart')
    throw new Refusal(`"${name}" cannot be the name of the project: npm could not install its packages.`);
}

/** A folder with nothing but what a new repository has may be written into. */
function checkFolder(folder: string, force: boolean): void {
  if (!existsSync(folder)) return;
  if (!statSync(folder).isDirectory()) throw new Refusal(`${folder} is a file.`);
  const found = readdirSync(folder).filter(name => name !== '.git');
  if (found.length > 0 && !force)
    throw new Refusal(
      `${folder} is not empty: it has ${found.slice(0, 5).join(', ')}${found.length > 5 ? ', …' : ''}. Name another folder, or add --force, which replaces files of the same name.`,
    );
}

type Chosen = { directory: string; store: StoreName };

/** Asks for what was not given, on a terminal. Elsewhere it takes the defaults. */
async function ask(given: Partial<Chosen>, asks: boolean): Promise<Chosen> {
  const chosen: Chosen = { directory: 'my-agent', store: 'sqlite', ...given };
  if (!asks) return chosen;
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  try {
    if (given.directory === undefined)
      chosen.directory =
        (await terminal.question(`Folder (${chosen.directory}): `)).trim() || chosen.directory;
    while (given.store === undefined) {
      const answer = (await terminal.question('Store, sqlite or postgres (sqlite): ')).trim() || 'sqlite';
      if (!isStore(answer)) continue;
      chosen.store = answer;
      break;
    }
    return chosen;
  } finally {
    terminal.close();
  }
}

/** Files whose names npm would not pack, or would read itself. */
const RENAMED = { gitignore: '.gitignore', dockerignore: '.dockerignore', env: '.env' };
const FILLED = ['package.json', 'README.md', 'Dockerfile', 'page/index.html', '.env'];

function write(folder: string, store: StoreName): void {
  const home = findPackage();
  const { version } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'));
  mkdirSync(folder, { recursive: true });
  cpSync(join(home, 'template'), folder, { recursive: true });
  if (store === 'postgres') cpSync(join(home, 'template-postgres'), folder, { recursive: true });
  for (const [packed, name] of Object.entries(RENAMED)) renameSync(join(folder, packed), join(folder, name));
  const words: Readonly<Record<string, string>> = { ...STORES[store], name: basename(folder), version };
  const fill = (text: string): string =>
    text.replaceAll(/\{\{(\w+)\}\}/g, (_, word: string) => fill(words[word] ?? ''));
  for (const file of FILLED) {
    const path = join(folder, file);
    writeFileSync(path, fill(readFileSync(path, 'utf8')));
  }
  if (store === 'postgres') addDependency(join(folder, 'package.json'), 'pg', '^8.11.0');
}

function addDependency(file: string, name: string, range: string): void {
  const manifest = JSON.parse(readFileSync(file, 'utf8'));
  const sorted = Object.entries({ ...manifest.dependencies, [name]: range }).sort(([a], [b]) =>
    a < b ? -1 : 1,
  );
  writeFileSync(
    file,
    `${JSON.stringify({ ...manifest, dependencies: Object.fromEntries(sorted) }, null, 2)}\n`,
  );
}

function readArguments() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        store: { type: 'string' },
        yes: { type: 'boolean', default: false },
        force: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    throw new Refusal(`${error instanceof Error ? error.message : error}\n\n${USAGE}`);
  }
}

/** The project runs TypeScript as it is. */
function checkNode(): void {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major < 22 || (major === 22 && minor < 18))
    throw new Refusal(`The project needs Node 22.18 or later; this is Node ${process.versions.node}.`);
}

async function main(): Promise<void> {
  checkNode();
  const { values, positionals } = readArguments();
  if (values.help) return console.log(USAGE);
  const [named, ...others] = positionals;
  if (others.length > 0) throw new Refusal(`Expected one folder, got ${positionals.join(', ')}.\n\n${USAGE}`);
  const { store: wanted } = values;
  if (wanted !== undefined && !isStore(wanted))
    throw new Refusal(`There is no store "${wanted}": use sqlite or postgres.`);
  const given: Partial<Chosen> = {
    ...(named !== undefined && { directory: named }),
    ...(wanted !== undefined && { store: wanted }),
  };
  const isTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
  const { directory, store } = await ask(given, isTerminal && !values.yes);
  const folder = resolve(directory);
  checkName(basename(folder));
  checkFolder(folder, values.force);
  write(folder, store);
  const path = relative(process.cwd(), folder);
  const steps = [
    ...(path === '' ? [] : [`cd ${path}`]),
    'npm install',
    'npm test',
    ...(store === 'postgres' ? ['docker compose up -d postgres'] : []),
    'npm run dev',
  ];
  console.log(`Wrote ${basename(folder)}, with runs in ${store}. Next:\n\n  ${steps.join('\n  ')}`);
}

main().catch((error: unknown) => {
  if (!(error instanceof Refusal)) throw error;
  console.error(error.message);
  process.exitCode = 1;
});
