import { expect, test } from 'vitest';
import { mutantsOf } from './mutate.ts';

function changesOf(source: string): string[] {
  return mutantsOf('file.ts', source).map(
    ({ line, operator, from, to }) => `${line} ${operator}: ${from} → ${to}`,
  );
}

test('a file has a mutant for each operator and place', () => {
  const source = `
    async function work(a: number, b: boolean) {
      if (a < 1 && b) await save(a);
      else count += 1;
      return b ? a : 0;
    }
    function log(on: boolean) {
      if (on) return;
      print();
    }`;
  expect(changesOf(source)).toEqual([
    '3 negate a condition: if (a < 1 && b) await save(a); → if (!(a < 1 && b)) await save(a);',
    '3 drop an else: if (a < 1 && b) await save(a); else count += 1; → if (a < 1 && b) await save(a);',
    '3 swap and/or: if (a < 1 && b) await save(a); → if (a < 1 || b) await save(a);',
    '3 move a bound: if (a < 1 && b) await save(a); → if (a <= 1 && b) await save(a);',
    '3 change a literal: if (a < 1 && b) await save(a); → if (a < 2 && b) await save(a);',
    '3 drop a statement: if (a < 1 && b) await save(a); → if (a < 1 && b) ;',
    '3 drop an await: if (a < 1 && b) await save(a); → if (a < 1 && b) save(a);',
    '4 drop a statement: else count += 1; → else ;',
    '4 change a literal: else count += 1; → else count += 2;',
    '5 negate a condition: return b ? a : 0; → return !(b) ? a : 0;',
    '5 change a literal: return b ? a : 0; → return b ? a : 1;',
    '8 negate a condition: if (on) return; → if (!(on)) return;',
    '8 drop a guard: if (on) return; → ;',
    '9 drop a statement: print(); → ;',
    '7 return early: function log(on: boolean) { → function log(on: boolean) { return;',
  ]);
});

test('types, names, fault points, constructors and the await of a returned call have no mutants', () => {
  const source = `
    type Step = 1 | -1 | true;
    const NAMES = { ...OTHERS, host: true, step: true };
    class Log extends Map {
      constructor() {
        super();
      }
      async read(host: Host, step: 0 | 1) {
        host.reach?.('read.before');
        return (await this.all(step)) as Entry[];
      }
    }`;
  expect(changesOf(source)).toEqual([]);
});

test('an await inside of a try has a mutant: without it the error is not caught', () => {
  const source = `
    async function read() {
      try {
        return await load();
      } catch {
        return 0;
      }
    }`;
  expect(changesOf(source)).toEqual([
    '4 drop an await: return await load(); → return load();',
    '6 change a literal: return 0; → return 1;',
  ]);
});
