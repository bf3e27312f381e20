import { describe, expect, test } from 'vitest';
import { bodyText, convertOnce, setText } from '../../../adapters/http/body-text.ts';

describe('tools that are sent with every call', () => {
  test('are converted and serialized once while the list has the same elements', () => {
    let read = 0;
    const tool = {
      get name() {
        read += 1;
        return 'search';
      },
    };
    const convert = convertOnce<{ name: string }>(list => list.map(({ name }) => ({ name })));
    const list = [tool];
    for (let call = 0; call < 3; call += 1)
      expect(bodyText({ model: 'm', tools: convert(list) })).toBe(
        '{"model":"m","tools":[{"name":"search"}]}',
      );
    expect(read).toBe(1);
  });

  test('are converted again after the list changed', () => {
    const convert = convertOnce<{ name: string }>(list => list.map(({ name }) => ({ name })));
    const list = [{ name: 'search' }];
    expect(convert(list)).toEqual([{ name: 'search' }]);
    list.push({ name: 'read' });
    expect(bodyText({ tools: convert(list) })).toBe('{"tools":[{"name":"search"},{"name":"read"}]}');
    list.splice(0, 2, { name: 'write' }, { name: 'read' });
    expect(bodyText({ tools: convert(list) })).toBe('{"tools":[{"name":"write"},{"name":"read"}]}');
  });
});

describe('the text of a list', () => {
  test('is used in its body, whatever other requests were prepared in between', () => {
    const [first, second] = [[{ a: 1 }], [{ b: 2 }]];
    setText(first, '[{"a":"known"}]');
    setText(second, '[{"b":"known"}]');
    expect(bodyText({ messages: first })).toBe('{"messages":[{"a":"known"}]}');
    expect(bodyText({ messages: second })).toBe('{"messages":[{"b":"known"}]}');
  });

  test('is not that of a copy, and is no member of the list', () => {
    const list = [{ a: 1 }];
    setText(list, '[{"a":"known"}]');
    expect(bodyText({ messages: [...list] })).toBe('{"messages":[{"a":1}]}');
    expect(list).toEqual([{ a: 1 }]);
    expect(JSON.stringify(list)).toBe('[{"a":1}]');
  });
});
