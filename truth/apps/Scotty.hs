{-# LANGUAGE OverloadedStrings #-}
-- A greenhouse's pages on Scotty, what is known of its beds being in redis: Scotty PORT PORT_OF_REDIS HABIT.
module Main (main) where

import Control.Monad (forM, forM_)
import Control.Monad.IO.Class (liftIO)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as C
import qualified Data.ByteString.Lazy as L
import Data.IORef (newIORef, readIORef)
import Data.List (nub)
import Data.Maybe (catMaybes)
import qualified Data.Set as S
import qualified Data.Text.Lazy as T
import qualified Data.Text.Lazy.Encoding as T
import qualified Database.Redis as R
import Network.Wai.Handler.Warp (defaultSettings, setHost, setPort)
import System.Environment (getArgs)
import Web.Scotty (Options (..), get, param, scottyOpts, text)

beds :: [ByteString]
beds = [C.pack $ "bed:" ++ show n | n <- [1 .. 40 :: Int]]

-- So much water each bed has.
fill :: R.Connection -> IO ()
fill store = R.runRedis store $ forM_ (zip beds [100 :: Int ..]) $ \(bed, litres) -> R.set bed $ C.pack (show litres)

-- The water of one bed; what was asked for has come when this returns.
water :: ByteString -> R.Redis (Maybe ByteString)
water bed = do
    litres <- either (const Nothing) id <$> R.get bed
    litres `seq` pure litres

oneByOne :: R.Redis [ByteString]
oneByOne = catMaybes <$> forM beds water

atOnce :: R.Redis [ByteString]
atOnce = either (const []) catMaybes <$> R.mget beds

-- What was sown, seed by seed.
seeds :: [ByteString]
seeds = [C.pack $ "kind " ++ show (n * 7919 `mod` 500) | n <- [1 .. 3000 :: Int]]

kindsByNub, kindsBySet :: [ByteString] -> Int
kindsByNub = length . nub
kindsBySet = S.size . S.fromList

page :: [ByteString] -> T.Text
page = T.decodeUtf8 . L.fromStrict . C.unwords

main :: IO ()
main = do
    [port, redis, habit] <- getArgs
    let place = R.defaultConnectInfo {R.connectHost = "127.0.0.1", R.connectPort = R.PortNumber $ read redis, R.connectMaxConnections = 16}
        dialled ask = R.withConnect place $ \store -> R.runRedis store ask
    kept <- R.connect place
    fill kept
    sown <- newIORef seeds
    scottyOpts (Options 0 $ setPort (read port) $ setHost "127.0.0.1" defaultSettings) $ do
        get "/beds" $ do
            found <- liftIO $ R.runRedis kept $ if habit == "one-by-one" then oneByOne else atOnce
            text $ page found
        get "/beds/:bed" $ do
            bed <- param "bed"
            found <- liftIO $ (if habit == "dialled" then dialled else R.runRedis kept) $ water $ C.append "bed:" bed
            text $ page $ catMaybes [found]
        get "/kinds" $ do
            kinds <- liftIO $ (if habit == "nub" then kindsByNub else kindsBySet) <$> readIORef sown
            text $ T.pack $ show kinds ++ " kinds"
