import { describe, expect, test } from 'vitest';
import { checkOwner, checkOwnerName, compareOwner, makeOwner } from '../../../engine/host/owner.ts';
import {
  type NamedProcess,
  nameOwner,
  readOwnerName,
  shortenOwnerName,
} from '../../../protocol/owner-name.ts';

const here: NamedProcess = { host: 'vm', pid: 7, startedAt: '900', space: 'space', instance: 'mine' };
const other: NamedProcess = { ...here, pid: 8, startedAt: '100', instance: 'theirs' };

const none = () => ({ type: 'none' }) as const;
const started = (startedAt: string) => () => ({ type: 'found', startedAt }) as const;
const unasked = (): never => {
  throw new Error('a process id of another place was looked up');
};

describe('an owner', () => {
  test('on the same host is dead if its process id is unused, or belongs to a later process', () => {
    expect(compareOwner(other, here, none)).toBe('dead');
    expect(compareOwner(other, here, started('400'))).toBe('dead');
    expect(compareOwner(other, here, started('100'))).toBe('alive');
  });

  test('is unknown when either start time is unknown', () => {
    expect(compareOwner(other, here, started(''))).toBe('unknown');
    expect(compareOwner({ ...other, startedAt: '' }, here, started('100'))).toBe('unknown');
  });

  test.each([
    ['another place', { ...other, space: 'elsewhere' }],
    ['a place that is not known', { ...other, space: '' }],
    ['no place', { host: 'vm/boot', pid: 8, startedAt: '100' }],
    ['no process at all', { ...other, pid: 2 ** 32 + 8 }],
  ])('of %s is not looked up by its process id', (_, owner) => {
    expect(compareOwner(owner, here, unasked)).toBe('unknown');
  });

  test('is looked up by the largest process id there can be, and by none above', () => {
    expect(compareOwner({ ...other, pid: 2 ** 31 - 1 }, here, started('100'))).toBe('alive');
    expect(compareOwner({ ...other, pid: 2 ** 31 }, here, unasked)).toBe('unknown');
  });

  test('is not looked up when both process namespaces are unknown', () => {
    expect(compareOwner({ ...other, space: '' }, { ...here, space: '' }, unasked)).toBe('unknown');
  });

  test('is this process only in the same instance of the engine', () => {
    expect(compareOwner(here, here, unasked)).toBe('self');
    expect(compareOwner({ ...here, instance: 'of a worker thread' }, here, started('900'))).toBe('alive');
  });

  test('is recognized by its name in the journal', () => {
    const owner = { ...other, host: 'a:b@c', startedAt: 'Mon Jun  2 10:00:00 2025 @/' };
    expect(readOwnerName(nameOwner(owner))).toEqual(owner);
    expect(shortenOwnerName(nameOwner(owner))).toBe('a:b@c:8');
    expect(checkOwnerName(nameOwner(makeOwner('driver_1')))).toBe('self');
  });

  test.each(['vm:8', 'vm:8@', 'vm:8@a/b', 'vm:8@a/b/%', 'vm:8@//', ''])('named "%s" is unknown', name => {
    expect(checkOwnerName(name)).toBe('unknown');
  });

  test('whose process has ended on this host is dead, by its name and by its lease', () => {
    const gone = { ...makeOwner('driver_1'), pid: 2 ** 30 };
    expect([checkOwner(gone), checkOwnerName(nameOwner(gone))]).toEqual(['dead', 'dead']);
    expect(checkOwner({ ...makeOwner('driver_1'), pid: 1, instance: 'another' })).toBe('dead');
  });
});
