import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, expect, test } from 'vitest';
import { begin, receive } from '../../stores/conformance/check.ts';
import { backUpDatabase } from '../../stores/sqlite/back-up-database.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { makeFile } from '../support/stores/make-file.ts';

describe('a backup of a database', () => {
  test('has the runs as they were, also what is only in the log, and can be written to', async () => {
    const file = makeFile();
    const store = sqlite(file);
    await store.create(begin('a'));
    await store.putBlob('a', 'ab'.repeat(32), '"large"');
    await store.append('a', { after: 1, input: true }, [receive('hello')], { status: 'waiting' });
    const backup = await backUpDatabase(file, `${file}.copy`);
    expect(backup).toMatchObject({ file: `${file}.copy`, runs: 1 });
    await store.append('a', { after: 2, input: true }, [receive('later')], { status: 'waiting' });

    const restored = sqlite(`${file}.copy`);
    expect(await restored.read('a')).toEqual((await store.read('a')).slice(0, 2));
    expect(await restored.readBlob('a', 'ab'.repeat(32), 0, 99)).toEqual(new TextEncoder().encode('"large"'));
    const appended = await restored.append('a', { after: 2, input: true }, [receive('on')], {
      status: 'waiting',
    });
    expect(appended).toEqual({ type: 'appended', seq: 3 });
    await restored.close();
    await store.close();
  });

  test('is whole, whatever another connection writes meanwhile', async () => {
    const file = makeFile();
    const store = sqlite(file);
    await store.create(begin('a'));
    let seq = 1;
    let isDone = false;
    const writes = (async () => {
      while (!isDone) {
        const appended = await store.append('a', { after: seq, input: true }, [receive('x'.repeat(999))], {
          status: 'waiting',
        });
        if (appended.type === 'appended') seq = appended.seq;
        await new Promise(setImmediate);
      }
    })();
    for (let copy = 0; copy < 5; copy += 1) await backUpDatabase(file, `${file}.${copy}`);
    isDone = true;
    await writes;
    for (let copy = 0; copy < 5; copy += 1) {
      const restored = sqlite(`${file}.${copy}`);
      const entries = await restored.read('a');
      expect(entries).toEqual((await store.read('a')).slice(0, entries.length));
      await restored.close();
    }
    await store.close();
  });

  test('replaces no file, and leaves nothing behind when it fails', async () => {
    const file = makeFile();
    const store = sqlite(file);
    await store.create(begin('a'));
    await store.close();
    writeFileSync(`${file}.copy`, 'mine');
    await expect(backUpDatabase(file, `${file}.copy`)).rejects.toMatchObject({ code: 'refused' });
    await expect(backUpDatabase(file, file)).rejects.toMatchObject({ code: 'refused' });
    expect(readFileSync(`${file}.copy`, 'utf8')).toBe('mine');
    const other = makeFile();
    writeFileSync(other, 'no database '.repeat(100));
    await expect(backUpDatabase(other, `${other}.copy`)).rejects.toMatchObject({ code: 'store-damaged' });
    expect(existsSync(`${other}.copy`)).toBe(false);
    expect(readdirSync(dirname(other)).filter(name => name.includes('partial'))).toEqual([]);
  });

  test('names the copy if that is what cannot be written', async () => {
    const file = makeFile();
    const store = sqlite(file);
    await store.create(begin('a'));
    await store.close();
    const target = `${file}/copy.db`;
    await expect(backUpDatabase(file, target)).rejects.toMatchObject({
      code: 'store-unavailable',
      details: { file: target },
    });
  });
});
