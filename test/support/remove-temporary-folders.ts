import { afterAll } from 'vitest';
import { removeTemporaryFolders } from './temporary-folders.ts';

/** After each file, in shared workers too. */
afterAll(removeTemporaryFolders);
