import { expect, test } from 'vitest';
import { readFolder, stewardInstructions } from '../../../examples/steward/instructions.ts';

test.each([['/'], ['/home/me/hand book'], ['C:\\Users\\me'], ['/a/it\'s `odd` "here".'], ['/日本語/$&']])(
  'readFolder returns the folder %s from the instructions unchanged',
  root => {
    expect(readFolder(stewardInstructions(root))).toBe(root);
  },
);

test.each([
  ['The folder is /tmp/docs. Go on!', '/tmp/docs'],
  ['Please check it; the folder is "/tmp/my docs", thanks', '/tmp/my docs'],
  ['the folder is: `/tmp/docs`', '/tmp/docs'],
  ['Look after my documents', null],
])('%j names %s', (message, folder) => {
  expect(readFolder(message)).toBe(folder);
});
