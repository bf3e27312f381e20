import { StepCounter } from './count-steps.ts';

type Method = (this: never, ...given: never[]) => unknown;

const counters = new WeakMap<RegExp, StepCounter>();

/**
 * The amount of `work`: the steps of every pattern it runs, and the characters and elements that built-in
 * searches of strings and arrays pass. Deterministic on any machine.
 */
export function countWork(work: () => unknown): number {
  let counted = 0;
  let inside = false;
  const restore: (() => void)[] = [];

  function watch(target: object, name: string, cost: (self: never, given: never[], result: never) => number) {
    const original: Method = Reflect.get(target, name);
    const watched = function (this: never, ...given: never[]): unknown {
      if (inside) return original.apply(this, given);
      inside = true;
      try {
        const result = original.apply(this, given);
        counted += cost(this, given, result as never);
        return result;
      } finally {
        inside = false;
      }
    };
    Object.defineProperty(target, name, { value: watched, configurable: true, writable: true });
    restore.push(() => {
      Object.defineProperty(target, name, { value: original, configurable: true, writable: true });
    });
  }

  const exec = RegExp.prototype.exec;
  Object.defineProperty(RegExp.prototype, 'exec', {
    configurable: true,
    writable: true,
    value(this: RegExp, text: string) {
      if (!inside) {
        inside = true;
        counted += stepsOf(this, String(text));
        inside = false;
      }
      return exec.call(this, text);
    },
  });
  restore.push(() => {
    Object.defineProperty(RegExp.prototype, 'exec', { value: exec, configurable: true, writable: true });
  });

  for (const name of ['indexOf', 'lastIndexOf'] as const) {
    const passed = (self: { length: number }, [, from = 0]: [unknown, number?], at: number) =>
      at === -1 || name === 'lastIndexOf' ? self.length : at - from + 1;
    watch(String.prototype, name, passed as never);
    watch(Array.prototype, name, passed as never);
  }
  const lengthOf = (self: { length: number }) => self.length;
  watch(String.prototype, 'includes', lengthOf as never);
  watch(Array.prototype, 'includes', lengthOf as never);
  for (const name of ['toLowerCase', 'trim', 'startsWith']) {
    watch(String.prototype, name, (name === 'startsWith' ? () => 1 : lengthOf) as never);
  }
  for (const name of ['replaceAll', 'split']) {
    const original: Method = Reflect.get(String.prototype, name);
    Object.defineProperty(String.prototype, name, {
      configurable: true,
      writable: true,
      value(this: never, ...given: never[]) {
        if (!inside && typeof given[0] === 'string') counted += String(this).length;
        return original.apply(this, given);
      },
    });
    restore.push(() => {
      Object.defineProperty(String.prototype, name, { value: original, configurable: true, writable: true });
    });
  }
  for (const name of ['find', 'findIndex', 'findLast', 'some', 'every', 'filter', 'flatMap', 'map']) {
    const original: Method = Reflect.get(Array.prototype, name);
    Object.defineProperty(Array.prototype, name, {
      configurable: true,
      writable: true,
      value(this: never, callback: (...given: unknown[]) => unknown, self: never) {
        if (inside) return original.apply(this, [callback as never, self]);
        const counting = (...given: unknown[]) => {
          counted += 1;
          return callback.apply(self, given);
        };
        return original.apply(this, [counting as never]);
      },
    });
    restore.push(() => {
      Object.defineProperty(Array.prototype, name, { value: original, configurable: true, writable: true });
    });
  }
  try {
    work();
  } finally {
    for (const undo of restore) undo();
  }
  return counted;
}

function stepsOf(pattern: RegExp, text: string): number {
  const { source, flags, lastIndex, global, sticky } = pattern;
  const counter = counters.get(pattern) ?? new StepCounter(source, flags);
  counters.set(pattern, counter);
  counter.steps = 0;
  counter.find(text, global || sticky ? lastIndex : 0);
  return counter.steps;
}
