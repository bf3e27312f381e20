import { mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { FileIndex } from '../../../../server/builtins/file-index.ts';

let folder: string;
let outside: string;
let index: FileIndex;
let log: string[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'agentchart-files-'));
  outside = mkdtempSync(join(tmpdir(), 'agentchart-outside-'));
  log = [];
  index = new FileIndex([folder], line => log.push(line));
});
afterEach(() => {
  index.close();
  for (const path of [folder, outside]) rmSync(path, { recursive: true, force: true });
});

function write(path: string, text: string | Uint8Array): void {
  writeFileSync(join(folder, path), text);
}

async function find(query: string): Promise<string[]> {
  const found = await index.search(query, { most: 50, threshold: 0, accepts: () => true });
  return found.map(({ attributes }) => attributes.path);
}

describe('the index of files', () => {
  it('finds words in files and in their names, the best match first', async () => {
    mkdirSync(join(folder, 'deep'));
    write('deep/cats.md', 'Nothing here.');
    write('pets.md', 'Cats, cats and dogs.');
    write('birds.md', `Birds are no cats. ${'Feathers and beaks. '.repeat(20)}`);
    write('fish.md', 'Fish swim.');
    expect(await find('CATS')).toHaveLength(3);
    expect((await find('cats dogs'))[0]).toBe('pets.md');
    expect(await find('whales')).toEqual([]);
  });

  it('reads what changed, and forgets what is gone', async () => {
    write('a.md', 'old words');
    write('b.md', 'other words');
    expect(await find('words')).toHaveLength(2);
    write('a.md', 'new texts');
    utimesSync(join(folder, 'a.md'), new Date(), new Date(Date.now() + 5_000));
    rmSync(join(folder, 'b.md'));
    write('c.md', 'more texts');
    expect(await find('words')).toEqual([]);
    expect((await find('texts')).sort()).toEqual(['a.md', 'c.md']);
  });

  it('stays in its folders: links lead nowhere', async () => {
    writeFileSync(join(outside, 'secret.md'), 'secret words');
    symlinkSync(join(outside, 'secret.md'), join(folder, 'link.md'));
    symlinkSync(outside, join(folder, 'linked'));
    write('own.md', 'own words');
    expect(await find('words')).toEqual(['own.md']);
  });

  it('leaves out what is no text, too large, or hidden', async () => {
    write('binary.md', Buffer.from([119, 111, 114, 100, 0, 115]));
    write('latin.md', Buffer.from([119, 111, 114, 100, 115, 32, 0xe9]));
    write('.env', 'words of a secret');
    write('large.md', `words ${'x'.repeat(1024 * 1024)}`);
    mkdirSync(join(folder, '.git'));
    write('.git/config', 'words');
    write('plain.md', 'words');
    expect(await find('words')).toEqual(['plain.md']);
  });

  it.each([
    '"',
    "'; DROP TABLE parts; --",
    'words AND (',
    'text:words',
    'NEAR(words',
    'words*',
    '^',
    '{',
    '\u0000',
  ])('takes %j for words, not for operators', async query => {
    write('a.md', 'many words');
    const found = await find(query);
    expect(found).toEqual(query.includes('words') ? ['a.md'] : []);
  });

  it('cuts long files into parts, and nothing is lost', async () => {
    const lines = Array.from({ length: 400 }, (_, at) => `Line ${at} has the word unique${at}.`);
    write('long.md', lines.join('\n'));
    for (const at of [0, 57, 399]) {
      const [part] = await index.search(`unique${at}`, { most: 5, threshold: 0, accepts: () => true });
      expect(part?.text).toContain(`Line ${at} has`);
      expect(part?.text.length).toBeLessThanOrEqual(1_600);
    }
  });

  it('keeps to the number, the score and the filter asked for', async () => {
    for (const name of ['a', 'b', 'c']) write(`${name}.md`, 'words '.repeat(3));
    write('weak.md', `words ${'something else entirely '.repeat(60)}`);
    const all = { most: 50, threshold: 0, accepts: () => true };
    expect(await index.search('words', { ...all, most: 2 })).toHaveLength(2);
    const strong = await index.search('words', { ...all, threshold: 0.99 });
    expect(strong.map(({ attributes }) => attributes.path).sort()).toEqual(['a.md', 'b.md', 'c.md']);
    const [only, ...more] = await index.search('words', { ...all, accepts: ({ path }) => path === 'b.md' });
    expect(only?.attributes).toMatchObject({ filename: 'b.md', extension: 'md', bytes: 18 });
    expect(more).toEqual([]);
  });

  it('serves searches that arrive together', async () => {
    for (let at = 0; at < 20; at++) write(`${at}.md`, 'words');
    const counts = await Promise.all([1, 2, 3].map(async () => (await find('words')).length));
    expect(counts).toEqual([20, 20, 20]);
  });

  it('logs a folder that is not there, and searches the others', async () => {
    write('a.md', 'words');
    index = new FileIndex([join(folder, 'missing'), folder], line => log.push(line));
    expect(await find('words')).toEqual(['a.md']);
    expect(log.join()).toContain('cannot read a folder');
  });
});
