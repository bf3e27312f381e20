import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { COMMANDS } from '../../cli/command-table.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

const DOCUMENTS = [
  ...readdirSync(ROOT).filter(name => name.endsWith('.md')),
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.md') && !name.startsWith('.vitepress'))
    .map(name => `docs/${name.replaceAll('\\', '/')}`),
];

/** The anchors that GitHub gives the headings of a document. */
function anchorsOf(path: string): string[] {
  const prose = read(path).replace(/^```[\s\S]*?^```/gm, '');
  return [...prose.matchAll(/^#+ (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

const OPTIONS = new Map(
  Object.entries(COMMANDS).map(([name, declared]) => [
    name,
    Object.keys(declared).flatMap(key => /^--[\w-]+/.exec(key)?.[0] ?? []),
  ]),
);

/** What is wrong with the commands `agentchart …` in the shell blocks and backticks of a text. */
function findUnknownCommands(text: string): string[] {
  const shell = [...text.matchAll(/^```sh\n([\s\S]*?)^```|`(agentchart [^`\n]+)`/gm)];
  const lines = shell.flatMap(([, block, inline]) => (inline ?? block ?? '').split('\n'));
  return lines.flatMap(line => {
    const bare = line.replaceAll(/"[^"]*"|'[^']*'/g, 'TEXT').replace(/(?:^|\s)#.*/, '');
    return [...bare.matchAll(/(?:^|[\s(])agentchart(?: --)? ([a-z][^|;&)]*)/g)].flatMap(([, call = '']) => {
      const [words = ''] = call.split(/\s--(?=\s|$)/);
      const [first = '', second = '', ...rest] = words.trim().split(/\s+/);
      const name = OPTIONS.has(`${first} ${second}`) ? `${first} ${second}` : first;
      const known = OPTIONS.get(name);
      if (known === undefined) return [`agentchart ${first}`];
      const given = [second, ...rest].flatMap(word => /^--[\w-]+/.exec(word)?.[0] ?? []);
      return given.filter(option => !known.includes(option)).map(option => `agentchart ${name} ${option}`);
    });
  });
}

test('a command or an option that does not exist is found', () => {
  const text =
    '```sh\nagentchart run --agent a.ts --no "x --y" -- --z # --c\n```\n`agentchart fly RUN` `agentchart mcp login S --agent M`';
  expect(findUnknownCommands(text)).toEqual(['agentchart run --no', 'agentchart fly']);
});

describe.each(DOCUMENTS)('%s', document => {
  test('every command and option of the command line exists', () => {
    expect(findUnknownCommands(read(document))).toEqual([]);
  });

  test('every relative link resolves to a file or heading', () => {
    const prose = read(document).replaceAll(/^```[\s\S]*?^```$/gm, '');
    const links = [...prose.matchAll(/\]\((?!https?:)([^)\s]+)\)|(?:src|srcset)="([^"]+)"/g)];
    const broken = links
      .map(([, link, source]) => link ?? source ?? '')
      .filter(link => {
        const [path = '', anchor] = link.split('#');
        const target = path === '' ? document : join(dirname(document), path);
        // Generated: `api-reference.test.ts` checks links to it.
        if (target.startsWith('docs/api/')) return false;
        if (!existsSync(join(ROOT, target))) return true;
        return anchor !== undefined && !anchorsOf(target).includes(anchor);
      });
    expect(broken).toEqual([]);
  });

  test('every source file and folder named in backticks exists', () => {
    const named = [...read(document).matchAll(/`((?:[\w.-]+\/)+(?:[\w.-]+\.(?:ts|json|md))?)`/g)];
    const missing = named
      .map(([, path = '']) => path)
      .filter(
        path =>
          !/[A-Z]{3}|^agentchart\/|^\.agentchart\/|^dist\/|^docs\/(?:api|errors|reference)\/$/.test(
            path.replace(/README|CHANGELOG/, ''),
          ),
      )
      .filter(path => !existsSync(join(ROOT, path)));
    expect(missing).toEqual([]);
  });
});

test('each step of the walks through the code names a function of its file', () => {
  const steps = [...read('ARCHITECTURE.md').matchAll(/^\| \d+ \| `([\w./-]+)` \| `(\w+)` \|/gm)];
  expect(steps.length).toBeGreaterThan(40);
  const missing = steps
    .filter(([, file = '', name]) => !new RegExp(`\\b${name}\\b`).test(read(file)))
    .map(([, file, name]) => `${file}: ${name}`);
  expect(missing).toEqual([]);
});
