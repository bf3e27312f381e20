/** Writes the blocks of the guides as files, which `npm run check` compiles with the sources. */
import { guideBlocks, writeBlocks } from './guide-blocks.ts';

writeBlocks(guideBlocks());
